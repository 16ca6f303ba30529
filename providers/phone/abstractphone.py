"""Abstract Phone Intelligence: who serves a number, whose it is, what is known against it. It needs a key.

Status 422 says that the plan's quota is used up, 204 that they have no data.
"""

from __future__ import annotations

from typing import Any

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from settings import Rate

_QUOTA_SECONDS = 3600.0
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


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the number; None if they have no data on it."""
    response = await context.client.get(
        f"{context.base_url}/",
        params={"api_key": context.key or "", "phone": query.text.removeprefix("+")},
        timeout=context.timeout,
    )
    if response.status_code == 204:
        return None
    if response.status_code == 422:
        raise SourceError("rate_limited", "quota", _QUOTA_SECONDS)
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if raw is None:
        return {}
    return {field: raw[block][name] for field, (block, name) in _NAMES.items()}


SOURCE = RemoteSource(
    RemoteSpec(
        name="abstractphone",
        kind="phone",
        fields=frozenset(_NAMES),
        licence="Abstract API terms of service",
        attribution="Abstract API, https://www.abstractapi.com",
        base_url="https://phoneintelligence.abstractapi.com/v1",
        key="required",
        personal=True,
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(3, 1),
    ),
    fetch,
    parse,
    takes=lambda query: query.value.valid,
)
