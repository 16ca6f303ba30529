"""Abstract Phone Intelligence: the carrier and the owner of a number, and reports against it."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources import abstract
from providers.sources.base import Evidence, Fields, RemoteSource, RemoteSpec

# Our field → their block and name.
_NAMES = {
    "country.region": ("phone_location", "region"),
    "country.city": ("phone_location", "city"),
    "country.timezone": ("phone_location", "timezone"),
    "carrier.name": ("phone_carrier", "name"),
    "carrier.line_type": ("phone_carrier", "line_type"),
    "messaging.sms_domain": ("phone_messaging", "sms_domain"),
    "messaging.sms_email": ("phone_messaging", "sms_email"),
    "validation.is_valid": ("phone_validation", "is_valid"),
    "validation.line_status": ("phone_validation", "line_status"),
    "validation.is_voip": ("phone_validation", "is_voip"),
    "validation.minimum_age": ("phone_validation", "minimum_age"),
    "registration.name": ("phone_registration", "name"),
    "registration.type": ("phone_registration", "type"),
    "risk.risk_level": ("phone_risk", "risk_level"),
    "risk.is_disposable": ("phone_risk", "is_disposable"),
    "risk.is_abuse_detected": ("phone_risk", "is_abuse_detected"),
    "breaches.total_breaches": ("phone_breaches", "total_breaches"),
    "breaches.date_first_breached": ("phone_breaches", "date_first_breached"),
    "breaches.date_last_breached": ("phone_breaches", "date_last_breached"),
}


def parse(raw: Any) -> Fields:
    """Read an answer; every plan includes whether the number is valid."""
    if raw is None:
        return {}
    told = {field: abstract.block(raw, block).get(name) for field, (block, name) in _NAMES.items()}
    return told | {"validation.is_valid": raw["phone_validation"]["is_valid"]}


SOURCE = RemoteSource(
    RemoteSpec(
        name="abstractphone",
        kind="phone",
        fields=frozenset(_NAMES),
        licence="Abstract API terms of service",
        terms="https://www.abstractapi.com/legal/legal",
        attribution="Abstract API, https://www.abstractapi.com",
        evidence=Evidence(
            "https://github.com/abstractapi/docs/blob/main/api-docs/api/phone-intelligence.mdx",
            date(2026, 11, 21),
        ),
        base_url="https://phoneintelligence.abstractapi.com/v1",
        key="required",
        personal=True,
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rates=abstract.RATES,
    ),
    abstract.asking("phone", lambda query: query.text.removeprefix("+")),
    parse,
    takes=lambda query: query.value.valid,
)
