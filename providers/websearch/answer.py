"""The answer of a web search: pages, best first, of all search engines that were asked."""

from __future__ import annotations

from models.lookups import Block, LookupAnswer


class WebResult(Block):
    """A page; `published` is a date, `YYYY-MM-DD`."""

    title: str
    url: str
    snippet: str | None
    published: str | None


class Enrichment(Block):
    """The encyclopedia's article about exactly what was searched for."""

    title: str | None
    summary: str | None
    url: str | None


class WebSearchAnswer(LookupAnswer):
    """What the web has on a query; `total` is how many pages the engine with the most knows of."""

    query: str
    results: list[WebResult]
    total: int | None
    enrichment: Enrichment | None
