"""Answers of lookups from what their sources said, as of one moment."""

from __future__ import annotations

from datetime import UTC, datetime

from providers.lookup.composition import compose
from providers.lookup.result import LookupResult, SourceResult
from providers.sources.base import Source
from providers.sources.kind import Kind

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def answer(kind: Kind, outcomes: list[tuple[Source, SourceResult]]) -> LookupResult:
    return compose(kind, kind.normalise(kind.example, ""), outcomes, NOW)
