"""SearXNG: the operator's own instance, which asks dozens of engines. Enabled when its base URL is set.

The instance must list `json` under `search.formats`; otherwise it answers 403.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources.base import Evidence, Fields, RemoteSpec, SourceError
from providers.sources.rest import Get, rest
from providers.websearch.pages import list_pages, page


def parse(raw: Any) -> Fields:
    """Read an answer. An empty answer while engines were unresponsive is a failure: they may have results."""
    results = [
        page(one["title"], one["url"], one.get("content"), one.get("publishedDate")) for one in raw["results"]
    ]
    if not results:
        if raw.get("unresponsive_engines"):
            raise SourceError("error", "engines_unresponsive")
        return {}
    # Releases before May 2026 report the total, or 0 if it is unknown.
    return {"results": list_pages(results), "total": raw.get("number_of_results") or None}


SOURCE = rest(
    RemoteSpec(
        name="searxng",
        kind="websearch",
        fields=frozenset({"results", "total"}),
        licence="terms of the engines that the instance asks",
        attribution="SearXNG, https://docs.searxng.org",
        evidence=Evidence("https://docs.searxng.org/dev/search_api.html", date(2026, 11, 21)),
        own=True,
        timeout=6,
        ttl=3600,
        negative_ttl=600,
        personal=True,
    ),
    Get(path="/search", params={"q": "{query}", "format": "json", "pageno": "1"}),
    parse,
)
