"""Wikipedia: a search in the encyclopedia, and the article of exactly that name, if there is one."""

from __future__ import annotations

from datetime import date
from typing import Any
from urllib.parse import quote

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
from providers.websearch.pages import page, plain
from settings import Rate

_COUNT = 20
_PAGES = "https://en.wikipedia.org/wiki/"


async def fetch(query: Query, context: Context) -> tuple[str, Any]:
    """Fetch the best results; the query is returned with them, to be compared with their titles."""
    response = await context.client.get(
        f"{context.base_url}/w/api.php",
        params={
            "action": "query",
            "list": "search",
            "srsearch": query.text,
            "srlimit": str(_COUNT),
            "format": "json",
            "formatversion": "2",
        },
        timeout=context.timeout,
    )
    return query.text, json_answer(response)


def parse(raw: tuple[str, Any]) -> Fields:
    """Read an answer. Errors come with status 200.

    Raises:
        SourceError: for an answer that is an error.
    """
    query, told = raw
    if "error" in told:
        limited = told["error"]["code"] in ("ratelimited", "maxlag")
        raise SourceError("rate_limited" if limited else "bad_response", "api_error")
    results = [page(one["title"], _address(one["title"]), one["snippet"]) for one in told["query"]["search"]]
    if not results:
        return {}
    fields: Fields = {"results": results, "total": told["query"]["searchinfo"]["totalhits"]}
    article = next((one for one in results if one["title"].casefold() == plain(query).casefold()), None)
    if article is not None:
        fields |= {
            "enrichment.title": article["title"],
            "enrichment.summary": article["snippet"],
            "enrichment.url": article["url"],
        }
    return fields


def _address(title: str) -> str:
    return _PAGES + quote(title.replace(" ", "_"), safe="/:,()'!*@$;~")


SOURCE = RemoteSource(
    RemoteSpec(
        name="wikipedia",
        kind="websearch",
        fields=frozenset({"results", "total", "enrichment.title", "enrichment.summary", "enrichment.url"}),
        licence="CC BY-SA 4.0",
        commercial="yes",
        terms="https://foundation.wikimedia.org/wiki/Policy:Terms_of_Use",
        attribution="Wikipedia, https://en.wikipedia.org",
        evidence=Evidence("https://www.mediawiki.org/wiki/API:Search", date(2026, 11, 21)),
        base_url="https://en.wikipedia.org",
        timeout=5,
        ttl=3600,
        negative_ttl=600,
        rates=(Rate(200, 60),),
        personal=True,
    ),
    fetch,
    parse,
)
