"""Abstract IP Intelligence: what an address is used for, whose it is, and where."""

from __future__ import annotations

from typing import Any

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from providers.ip.answer import AutonomousSystem, Company, Location, Security
from settings import Rate

_QUOTA_SECONDS = 3600.0
# Their fields have our names.
_BLOCKS = {
    "security": tuple(Security.model_fields),
    "asn": tuple(AutonomousSystem.model_fields),
    "company": tuple(Company.model_fields),
    "location": tuple(Location.model_fields),
    "timezone": ("name", "abbreviation", "utc_offset"),
}


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the address; None if they have no data on it."""
    response = await context.client.get(
        f"{context.base_url}/",
        params={"api_key": context.key or "", "ip_address": query.text},
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
    return {f"{block}.{name}": raw[block].get(name) for block, names in _BLOCKS.items() for name in names}


SOURCE = RemoteSource(
    RemoteSpec(
        name="abstractip",
        kind="ip",
        fields=frozenset(f"{block}.{name}" for block, names in _BLOCKS.items() for name in names),
        licence="Abstract API terms of service",
        attribution="Abstract API, https://www.abstractapi.com",
        base_url="https://ip-intelligence.abstractapi.com/v1",
        key="required",
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(3, 1),
    ),
    fetch,
    parse,
)
