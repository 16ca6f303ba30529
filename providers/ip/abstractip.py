"""Abstract IP Intelligence: the use, the owner and the location of an address."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.ip.answer import AutonomousSystem, Company, Location, Security
from providers.ip.countries import with_names
from providers.ip.timezones import current_zone
from providers.sources import abstract
from providers.sources.base import Evidence, Fields, RemoteSource, RemoteSpec

# Their fields have the same names as ours.
_BLOCKS = {
    "security": tuple(Security.model_fields),
    "asn": tuple(AutonomousSystem.model_fields),
    "company": tuple(Company.model_fields),
    "location": tuple(name for name in Location.model_fields if name not in ("accuracy_km", "is_anycast")),
    "timezone": ("name",),  # the clock time was true only at the time of the request
}


def parse(raw: Any) -> Fields:
    """Read an answer; every plan includes the location."""
    if raw is None:
        return {}
    told = {block: abstract.block(raw, block) for block in _BLOCKS} | {"location": raw["location"]}
    fields = {f"{block}.{name}": told[block].get(name) for block, names in _BLOCKS.items() for name in names}
    zone = fields["timezone.name"]
    return with_names(fields | {"timezone.name": current_zone(zone) if zone else None})


SOURCE = RemoteSource(
    RemoteSpec(
        name="abstractip",
        kind="ip",
        fields=frozenset(f"{block}.{name}" for block, names in _BLOCKS.items() for name in names),
        licence="Abstract API terms of service",
        terms="https://www.abstractapi.com/legal/legal",
        attribution="Abstract API, https://www.abstractapi.com",
        evidence=Evidence(
            "https://github.com/abstractapi/docs/blob/main/api-docs/api/ip-intelligence.mdx",
            date(2026, 11, 21),
        ),
        base_url="https://ip-intelligence.abstractapi.com/v1",
        key="required",
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rates=abstract.RATES,
        parser_version=3,
    ),
    abstract.asking("ip_address", lambda query: query.text),
    parse,
)
