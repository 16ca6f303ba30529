"""XposedOrNot: the breaches that an address is in. No key; 25 questions an hour, 100 a day.

What it knows nothing of, it answers with `ExposedBreaches: null`, and what it may not tell with status 404.
Who asks too often again and again is shut out for a day, with status 403.
"""

from __future__ import annotations

from typing import Any

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from providers.breach.exposed import usual
from settings import Rate

_SHUT_OUT_SECONDS = 86400.0


async def fetch(query: Query, context: Context) -> Any:
    """Ask for the breaches of the address; None if there are none."""
    response = await context.client.get(
        f"{context.base_url}/v1/breach-analytics", params={"email": query.text}, timeout=context.timeout
    )
    if response.status_code == 403:
        raise SourceError("rate_limited", "shut_out", _SHUT_OUT_SECONDS)
    return json_answer(response, empty=frozenset({404}))


def parse(raw: Any) -> Fields:
    """Read an answer; the kinds of data come as one text, parted by semicolons."""
    if raw is None or raw["ExposedBreaches"] is None:
        return {}
    details = raw["ExposedBreaches"]["breaches_details"]
    if not details:
        return {}
    exposed = [name for breach in details for name in (breach.get("xposed_data") or "").split(";")]
    return {
        "services": list(dict.fromkeys(breach["breach"] for breach in details)),
        "exposed_data": usual(exposed),
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="xposedornot",
        kind="breach",
        fields=frozenset({"services", "exposed_data"}),
        licence="XposedOrNot terms: free for personal and low-volume use",
        attribution="XposedOrNot, https://xposedornot.com",
        base_url="https://api.xposedornot.com",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(25, 3600),
        parser_version=2,
    ),
    fetch,
    parse,
)
