"""Brave Search: an index of its own."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources.base import Evidence, Fields, Query, RemoteSpec, SourceError
from providers.sources.rest import Get, rest
from providers.websearch.pages import list_pages, page
from settings import Rate

_COUNT = 20  # the most that one request can return
_MOST_WORDS = 50


def few_words(query: Query) -> bool:
    """Return whether the query is short enough for this engine."""
    return len(query.text.split()) <= _MOST_WORDS


def parse(raw: Any) -> Fields:
    """Read an answer; without results it has no `web`."""
    if raw["type"] != "search":
        raise SourceError("bad_response", "not_a_search")
    if "web" not in raw:
        return {}
    results = [
        page(one["title"], one["url"], one.get("description"), one.get("page_age"))
        for one in raw["web"]["results"]
    ]
    return {"results": list_pages(results)} if results else {}


SOURCE = rest(
    RemoteSpec(
        name="brave",
        kind="websearch",
        fields=frozenset({"results"}),
        licence="Brave Search API terms; results may not be stored beyond what the plan allows",
        terms="https://api-dashboard.search.brave.com/terms-of-service",
        attribution="Brave Search, https://search.brave.com",
        evidence=Evidence(
            "https://github.com/brave/brave-search-mcp-server/blob/HEAD/src/tools/web/types.ts",
            date(2026, 11, 21),
        ),
        base_url="https://api.search.brave.com/res/v1",
        key="required",
        timeout=5,
        ttl=3600,
        negative_ttl=600,
        stale_ttl=3600,
        rates=(Rate(1, 1),),
        personal=True,
    ),
    Get(
        path="/web/search",
        params={"q": "{query}", "count": str(_COUNT)},
        headers={"x-subscription-token": "{key}"},
        # In the vendor's reference the code is under `error` in the schema, and in a list `errors` in the
        # examples.
        words={"SUBSCRIPTION_TOKEN_INVALID": "auth_failed", "SUBSCRIPTION_NOT_FOUND": "auth_failed"},
    ),
    parse,
    takes=few_words,
)
