"""VirusTotal: how many security vendors call an address what.

A key of the public API must not be used in commercial products or workflows.
"""

from __future__ import annotations

from typing import Any

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, json_answer
from settings import Rate

_VERDICTS = ("malicious", "suspicious", "harmless", "undetected")


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the address; None if it was never looked at."""
    response = await context.client.get(
        f"{context.base_url}/ip_addresses/{query.text}",
        headers={"accept": "application/json", "x-apikey": context.key or ""},
        timeout=context.timeout,
    )
    return json_answer(response, empty=frozenset({404}))


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if raw is None:
        return {}
    told = raw["data"]["attributes"]
    counts = told["last_analysis_stats"]
    return {f"malware.{verdict}_count": counts[verdict] for verdict in _VERDICTS} | {
        "malware.reputation": told.get("reputation"),
        "malware.network": told.get("network"),
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="virustotal",
        kind="ip",
        fields=frozenset(
            {*(f"malware.{verdict}_count" for verdict in _VERDICTS), "malware.reputation", "malware.network"}
        ),
        licence="VirusTotal terms of service; the public API is not for commercial use",
        attribution="VirusTotal, https://www.virustotal.com",
        base_url="https://www.virustotal.com/api/v3",
        key="required",
        timeout=5,
        ttl=86400,
        negative_ttl=86400,
        # Half of what the public API allows for one key; the domains have the other half.
        rate=Rate(2, 60),
    ),
    fetch,
    parse,
)
