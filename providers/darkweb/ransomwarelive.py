"""ransomware.live: organisations that ransomware groups claim as victims on their leak sites.

The search is over the victims' names, websites and descriptions. "None" comes as an object that says so, with
status 404, and is an answer. One search a minute is allowed.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote, urlsplit

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from providers.darkweb.mentions import MOST, iso_timestamp, mention
from settings import Rate

_NONE = "No victims found"


async def fetch(query: Query, context: Context) -> Any:
    """Ask for the victims."""
    response = await context.client.get(
        f"{context.base_url}/searchvictims/{quote(query.text, safe='')}",
        headers={"accept": "application/json"},
        timeout=context.timeout,
    )
    if response.status_code == 404:
        response.status_code = 200
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if isinstance(raw, dict) and str(cast("dict[str, Any]", raw).get("error")).startswith(_NONE):
        return {}
    if not isinstance(raw, list):
        raise SourceError("bad_response", "not_a_list")
    victims = cast("list[dict[str, Any]]", raw)
    if not victims:
        return {}
    return {"results": [_mention(victim) for victim in victims[:MOST]], "total": len(victims)}


def _mention(victim: dict[str, Any]) -> dict[str, Any]:
    group, name = victim["group"], victim["victim"]
    host = urlsplit(victim.get("claim_url") or "").hostname
    facts = {"Website": "domain", "Country": "country", "Sector": "activity"}
    lines = [f"{label}: {victim[key]}" for label, key in facts.items() if victim.get(key)]
    return mention(
        group,
        title=name,
        body="\n".join([victim.get("description") or "", *lines]),
        domain=host,
        crawl_date=iso_timestamp(victim.get("discovered") or victim.get("attackdate")),
        leak={"name": name, "host": host, "actors": [group], "affected_records": None},
    )


SOURCE = RemoteSource(
    RemoteSpec(
        name="ransomwarelive",
        kind="darkweb",
        fields=frozenset({"results", "total"}),
        licence="Ransomware.live terms of use",
        attribution="Ransomware.live, https://www.ransomware.live",
        base_url="https://api.ransomware.live/v2",
        timeout=6,
        ttl=6 * 3600,
        negative_ttl=6 * 3600,
        rate=Rate(1, 60),
    ),
    fetch,
    parse,
    takes=lambda query: query.value in ("domain", "text"),
)
