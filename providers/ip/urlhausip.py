"""URLhaus by abuse.ch: URLs on an address that spread malware at present."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.ip import abusech
from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, json_answer

SERVICE = abusech.Service(
    "URLhaus by abuse.ch, https://urlhaus.abuse.ch",
    "https://urlhaus-api.abuse.ch/v1",
    Evidence(
        "https://github.com/TundraSoft/tundra-connect/wiki/URLhaus-API", date(2026, 11, 21), second_hand=True
    ),
)


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the host, an address or a name."""
    response = await context.client.post(
        f"{context.base_url}/host/",
        data={"host": query.text},
        headers={"auth-key": context.key or ""},
        timeout=context.timeout,
    )
    return json_answer(response)


def threats(raw: Any) -> set[str]:
    """Return the threats of the host's URLs that are online now, without those that were taken down."""
    return {str(url["threat"]) for url in raw["urls"] if url["url_status"] == "online"}


def parse(raw: Any) -> Fields:
    """Read an answer. A bare address hosts no third party's site, so any online URL counts as abuse."""
    return {"security.is_abuse": True} if abusech.has_data(raw) and threats(raw) else {}


SOURCE = RemoteSource(
    SERVICE.spec("urlhausip", "ip", "security.is_abuse"),
    fetch,
    parse,
    takes=lambda query: query.value.version == 4,
)
