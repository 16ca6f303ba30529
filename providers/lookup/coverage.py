"""Rules on which sources were heard: the price of an answer, and what it may state while a source is silent.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from models.lookups.silence import Reason
from providers.lookup.result import (
    ANSWERS,
    NO_DATA,
    LookupResult,
    SourceResult,
    SourceResults,
    is_heard,
    is_within,
)
from providers.lookup.source_status import BULK_USE, NO_KEY
from providers.sources.base import Fields, Source
from providers.sources.kind import Kind


def credits_for(
    kind: Kind, outcomes: SourceResults, delivered: Fields, fields: Collection[str] | None
) -> int:
    """Return the price of an answer: 0 if no source was heard, else by what is delivered.

    Args:
        kind: the kind of the lookup.
        outcomes: the outcome of every source.
        delivered: path → value.
        fields: the only fields that the caller receives; None for all.
    """
    if not any(is_heard(source, outcome) for source, outcome in outcomes):
        return 0
    if fields is not None:
        wanted = {*fields, *kind.priced}
        delivered = {path: value for path, value in delivered.items() if is_within(path, wanted)}
    return kind.cost(delivered)


def credits_for_query(result: LookupResult) -> int:
    """Return the price of an answer that is charged per query, even if empty: 0 if no source was heard."""
    return int(result.heard)


def answering(kind: Kind, outcomes: SourceResults, fields: Collection[str]) -> set[str]:
    """Return the names of the sources of these dotted fields that answered now, even if with nothing."""
    needed = kind.find_needed(fields)
    return {
        source.spec.name
        for source, outcome in outcomes
        if outcome.status in ANSWERS and not outcome.stale and _fills(source, needed)
    }


def silences(kind: Kind, outcomes: SourceResults, fields: Collection[str]) -> dict[str, Reason]:
    """Return the sources of these dotted fields that are silent now, each with the reason.

    A source that answered, but failed to find out some of the fields, is among them.
    """
    needed = kind.find_needed(fields)
    return {
        source.spec.name: why
        for source, outcome in outcomes
        if _fills(source, needed) and (why := _silence(outcome, needed)) is not None
    }


def _fills(source: Source, needed: Collection[str]) -> bool:
    return any(is_within(path, needed) for path in source.fields)


def _silence(outcome: SourceResult, needed: Collection[str]) -> Reason | None:
    """Return why a source is silent, or None if it is not."""
    if outcome.detail == NO_DATA:
        return "no_data"
    if outcome.detail == NO_KEY:
        return "no_key"
    if outcome.detail == BULK_USE:
        return "bulk_use"
    if "rate_limited" in (outcome.status, outcome.failure):
        return "limited"
    if outcome.silent or any(is_within(path, needed) for path in outcome.failures):
        return "failed"
    return None


def is_heard_of(kind: Kind, outcomes: SourceResults, fields: Collection[str]) -> bool:
    """Return whether a source that fills one of these dotted fields has answered now.

    An older answer that stands in for a source that failed does not count.
    """
    needed = kind.find_needed(fields)
    spoken = [source for source, outcome in outcomes if is_heard(source, outcome) and not outcome.stale]
    return any(_fills(source, needed) for source in spoken)


def unheard_fields(kind: Kind, result: LookupResult) -> frozenset[str]:
    """Return the counts that are 0 only because no source that could count any was heard.

    They must not enter a baseline, a verdict or a condition on changes: the earlier value stands.
    """
    return frozenset(
        path
        for path, (none, origin) in kind.none.items()
        if path in kind.counted
        and result.data.get(path) == none
        and (path not in result.sources or _is_open(result.outcomes, origin))
    )


def _is_open(outcomes: SourceResults, path: str) -> bool:
    return any(leaves_open(outcome, path) for source, outcome in outcomes if path in source.fields)


def leaves_open(outcome: SourceResult, path: str) -> bool:
    """Return whether a source that fills this field may know something that it did not report now."""
    return outcome.silent or path in outcome.unsure
