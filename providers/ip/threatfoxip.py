"""ThreatFox by abuse.ch: addresses from which malware is commanded, or spread.

It leaves out reports that are older than six months.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.ip import abusech
from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, json_answer

SERVICE = abusech.Service(
    "ThreatFox by abuse.ch, https://threatfox.abuse.ch",
    "https://threatfox-api.abuse.ch/api/v1",
    Evidence("https://threatfox.abuse.ch/api", date(2026, 11, 22)),
)
# The confidence of the reporter, of 100. Below this it is only a suspicion.
_LEAST_CONFIDENCE = 50


async def fetch(query: Query, context: Context) -> tuple[str, Any]:
    """Search for the query; return it with the answer, which also holds entries that only contain it."""
    response = await context.client.post(
        f"{context.base_url}/",
        json={"query": "search_ioc", "search_term": query.text},
        headers={"auth-key": context.key or ""},
        timeout=context.timeout,
    )
    return query.text, json_answer(response)


def indicators(told: tuple[str, Any]) -> list[dict[str, Any]]:
    """Return the entries for exactly this name, or for any port of this address.

    A URL on a host proves nothing about the host, which may be a file-sharing site.
    """
    host, raw = told
    if not abusech.has_data(raw):
        return []
    return [
        one
        for one in raw["data"]
        if one["confidence_level"] >= _LEAST_CONFIDENCE
        and (
            (one["ioc_type"] == "domain" and one["ioc"].lower() == host)
            or (one["ioc_type"] == "ip:port" and one["ioc"].rpartition(":")[0] == host)
        )
    ]


def parse(told: tuple[str, Any]) -> Fields:
    """Read an answer."""
    return {"security.is_abuse": True} if indicators(told) else {}


SOURCE = RemoteSource(
    SERVICE.spec("threatfoxip", "ip", "security.is_abuse"),
    fetch,
    parse,
    takes=lambda query: query.value.version == 4,
)
