"""The answer of a web search: pages, best first, of all search engines that were asked."""

from __future__ import annotations

from pydantic import Field

from models.lookups.lookups import Block, LookupAnswer


class WebResult(Block):
    """A page; `published` is a date, `YYYY-MM-DD`."""

    title: str = Field(description="The page's title.")
    url: str = Field(description="Its URL.")
    snippet: str | None = Field(description="A part of its text.")
    published: str | None = Field(description="When it appeared, `YYYY-MM-DD`.")


class Enrichment(Block):
    """The encyclopedia's article about exactly the searched term."""

    title: str | None = Field(description="The article's title.")
    summary: str | None = Field(description="Its first paragraph.")
    url: str | None = Field(description="Its URL.")


class WebSearchAnswer(LookupAnswer):
    """Pages on the web for a query; `total` is the largest number of pages that an engine reports."""

    query: str = Field(description="The query.")
    results: list[WebResult] = Field(description="The pages, best first.")
    total: int | None = Field(
        description="How many pages the engine with the most knows of; null if that is not known."
    )
    enrichment: Enrichment | None = Field(
        description="The encyclopedia's article about it; null without one."
    )
