"""The answer of a web search: pages, best first, of all search engines that were asked."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from models.lookups import LookupAnswer


class WebResult(BaseModel):
    """A page; `published` is a date, `YYYY-MM-DD`."""

    model_config = ConfigDict(extra="forbid")

    title: str
    url: str
    snippet: str | None
    published: str | None


class Enrichment(BaseModel):
    """The encyclopedia's article about exactly what was searched for."""

    model_config = ConfigDict(extra="forbid")

    title: str | None
    summary: str | None
    url: str | None


class WebSearchAnswer(LookupAnswer):
    """What the web has on a query; `total` is how many pages the engine with the most knows of."""

    query: str
    results: list[WebResult]
    total: int | None
    enrichment: Enrichment | None
