"""The composition of an answer from what the sources reported at different times.

A monitor stores the last answer of each source. From these it composes the answer that all sources would give
together, and the one that some of them would have given before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from models.monitors.snapshots import Said
from providers.lookup.composition import Selection, compose
from providers.lookup.result import (
    ANSWERS,
    NOT_ASKED,
    LookupResult,
    SourceResult,
    SourceResults,
    is_suppressed,
)
from providers.lookup.source_status import NO_KEY, OFF
from providers.sources.base import Fields, Query, Source
from providers.sources.kind import Kind

WHOLE = 1_000_000
"""The limit that returns lists whole."""

_FORGOTTEN = OFF - {NO_KEY}

_ABSENT = SourceResult("skipped", detail=NOT_ASKED)


def collect_said(outcomes: SourceResults) -> Said:
    """Return the fields of each source that answered now.

    Silent and stale sources, sources that were not asked, and sources that could find out nothing are left
    out.
    """
    return {
        source.spec.name: _list_told_fields(outcome)
        for source, outcome in outcomes
        if _spoke(source, outcome)
    }


def editions(outcomes: SourceResults) -> Mapping[str, str]:
    """Return the current edition of each source that is not disabled.

    A source that has lost its key is silent, not disabled. Another parser makes another edition, and so does
    another meaning of the query.
    """
    return {
        source.spec.name: f"{source.spec.edition} {outcome.about}".rstrip()
        for source, outcome in outcomes
        if outcome.detail not in _FORGOTTEN
    }


def filled_up(outcomes: SourceResults, last: Said) -> SourceResults:
    """Return the outcomes with each source's gaps filled from its last answer.

    An answer composed from them has the right `data`; only the original `outcomes` report what happened to
    the sources. Nothing is filled for a suppressed person, whose stored data is to be deleted.
    """
    if is_suppressed(outcomes):
        return outcomes
    return [
        (source, _fill_missing(source, outcome, last.get(source.spec.name))) for source, outcome in outcomes
    ]


def retell(kind: Kind, query: Query, words: Said, moment: datetime) -> LookupResult:
    """Compose the answer to `query` that these sources alone give, with its lists whole.

    Args:
        kind: the kind of the lookup.
        query: normalised.
        words: the fields of each source. All other sources count as not set up.
        moment: the time of the answer.
    """
    outcomes = [
        (source, _repeat_outcome(words[source.spec.name]) if source.spec.name in words else _ABSENT)
        for source in kind.sources
    ]
    return compose(kind, query, outcomes, moment, Selection(limit=WHOLE))


def _spoke(source: Source, outcome: SourceResult) -> bool:
    return outcome.status in ANSWERS and not outcome.stale and outcome.unsure != source.fields


def _list_told_fields(outcome: SourceResult) -> Fields:
    return {**outcome.fields, **dict.fromkeys(outcome.unsure)}


def _repeat_outcome(words: Mapping[str, object]) -> SourceResult:
    known = {path: value for path, value in words.items() if value is not None}
    return SourceResult("ok", known, unsure=frozenset(words.keys() - known.keys()))


def _fill_missing(source: Source, outcome: SourceResult, last: Mapping[str, object] | None) -> SourceResult:
    if last is None or outcome.detail in _FORGOTTEN:
        return outcome
    if not _spoke(source, outcome):
        return _repeat_outcome(last)
    if not outcome.unsure:
        return outcome
    never = {path for path, value in last.items() if value is None}
    sure = {path: value for path, value in outcome.fields.items() if path not in outcome.unsure - never}
    again = {path: last[path] for path in (outcome.unsure - never) & last.keys()}
    return outcome._replace(fields=sure | again, unsure=outcome.unsure & never)
