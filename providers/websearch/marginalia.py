"""Marginalia Search: an index of small, text-heavy sites."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, json_answer
from providers.websearch.pages import list_pages, page
from settings import Rate

_COUNT = 20


async def fetch(query: Query, context: Context) -> Any:
    """Fetch the best results."""
    response = await context.client.get(
        f"{context.base_url}/search",
        params={"query": query.text, "count": str(_COUNT)},
        headers={"api-key": context.key or ""},
        timeout=context.timeout,
    )
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer."""
    results = [page(one["title"], one["url"], one.get("description")) for one in raw["results"]]
    return {"results": list_pages(results)} if results else {}


SOURCE = RemoteSource(
    RemoteSpec(
        name="marginalia",
        kind="websearch",
        fields=frozenset({"results"}),
        licence="CC BY-NC-SA 4.0; other terms with a commercial key",
        commercial="no",
        terms="https://about.marginalia-search.com/article/api",
        attribution="Marginalia Search, https://marginalia-search.com",
        evidence=Evidence("https://about.marginalia-search.com/article/api", date(2026, 11, 21)),
        base_url="https://api2.marginalia-search.com",
        key="required",
        timeout=5,
        ttl=3600,
        negative_ttl=600,
        rates=(Rate(30, 60),),
        personal=True,
    ),
    fetch,
    parse,
)
