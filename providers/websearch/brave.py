"""Brave Search: an index of its own."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    json_answer,
)
from providers.websearch.pages import listed, page
from settings import Rate

_COUNT = 20  # the most that one request can bring
_MOST_WORDS = 50
_REFUSED = (b"SUBSCRIPTION_TOKEN_INVALID", b"SUBSCRIPTION_NOT_FOUND")


async def fetch(query: Query, context: Context) -> Any:
    """Ask for the first page of results.

    Raises:
        SourceError: `auth_failed`, for a key that is invalid (422) or without a subscription (404).
    """
    response = await context.client.get(
        f"{context.base_url}/web/search",
        params={"q": query.text, "count": str(_COUNT)},
        headers={"accept": "application/json", "x-subscription-token": context.key or ""},
        timeout=context.timeout,
    )
    # Their reference has the code under `error` in its schema, and in a list `errors` in its examples.
    if response.status_code in (404, 422) and any(code in response.content for code in _REFUSED):
        raise SourceError("auth_failed", f"http_{response.status_code}")
    return json_answer(response)


def few_words(query: Query) -> bool:
    """Whether the query is short enough for it."""
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
    return {"results": listed(results)} if results else {}


SOURCE = RemoteSource(
    RemoteSpec(
        name="brave",
        kind="websearch",
        fields=frozenset({"results"}),
        licence="Brave Search API terms; results may not be stored beyond what the plan allows",
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
        rate=Rate(1, 1),
        personal=True,
    ),
    fetch,
    parse,
    takes=few_words,
)
