"""GreyNoise: whether an address scans the whole Internet, or belongs to a well-known service.

The community API answers a few queries a day without a key, and as many as the plan allows with one. It knows
IPv4 only. "Not observed" comes with status 404, and is an answer.
"""

from __future__ import annotations

from datetime import date
from typing import Any, cast

from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    json_answer,
)
from settings import Rate


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the address."""
    response = await context.client.get(
        f"{context.base_url}/v3/community/{query.text}",
        headers={"accept": "application/json"} | ({"key": context.key} if context.key else {}),
        timeout=context.timeout,
    )
    if response.status_code == 404:
        response.status_code = 200
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if not isinstance(raw, dict):
        raise SourceError("bad_response", "not_an_object")
    told = cast("dict[str, Any]", raw)
    if not isinstance(told.get("noise"), bool) or not isinstance(told.get("riot"), bool):
        raise SourceError("bad_response", "unexpected_shape")
    name = told.get("name")
    return {
        "threat.is_scanner": told["noise"],
        "threat.is_known_service": told["riot"],
        "threat.classification": told.get("classification"),
        "threat.scanner_name": None if name == "unknown" else name,
        "threat.last_seen": told.get("last_seen"),
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="greynoise",
        kind="ip",
        fields=frozenset(
            f"threat.{name}"
            for name in ("is_scanner", "is_known_service", "classification", "scanner_name", "last_seen")
        ),
        licence="GreyNoise terms of service",
        terms="https://www.greynoise.io/terms",
        attribution="GreyNoise, https://www.greynoise.io",
        evidence=Evidence(
            "https://github.com/GreyNoise-Intelligence/api.greynoise.io/blob/master/README.md",
            date(2026, 11, 21),
        ),
        base_url="https://api.greynoise.io",
        key="optional",
        timeout=3,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(50, 86400),),
    ),
    fetch,
    parse,
    takes=lambda query: query.value.version == 4,
)
