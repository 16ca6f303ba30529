"""An answer made anew of what the sources said, whenever that was.

A monitor keeps what each source said when it last answered. From that it has the answer that all of them
would give together, and the one that some of them would have given before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from models.monitors.snapshots import Said
from providers.lookup.composition import compose
from providers.lookup.result import ANSWERS, NOT_ASKED, LookupResult, Outcome, Outcomes, suppressed
from providers.lookup.source_status import NO_KEY, OFF
from providers.sources.base import Fields, Kind, Query, Source

WHOLE = 1_000_000
"""The limit with which lists are delivered whole."""

_FORGOTTEN = OFF - {NO_KEY}

_ABSENT = Outcome("skipped", detail=NOT_ASKED)


def said(outcomes: Outcomes) -> Said:
    """Tell what each source says that has answered.

    That is none that is silent or stale, was not asked, or could find out nothing.
    """
    return {source.spec.name: _told(outcome) for source, outcome in outcomes if _spoke(source, outcome)}


def editions(outcomes: Outcomes) -> Mapping[str, str]:
    """Tell in which edition each source speaks now, for those that are not switched off.

    One that has lost its key is not switched off, but silent.

    Another parser makes another edition, and so does another thing that the query is taken to mean.
    """
    return {
        source.spec.name: f"{source.spec.edition} {outcome.about}".rstrip()
        for source, outcome in outcomes
        if outcome.detail not in _FORGOTTEN
    }


def filled_up(outcomes: Outcomes, last: Said) -> Outcomes:
    """Let each source say again what it said last of all that it has not found out now.

    An answer composed of that has the right `data`; what became of the sources is told by `outcomes` alone.
    Of a person who is `suppressed` nothing is said again: what was kept of them is to be forgotten.
    """
    if suppressed(outcomes):
        return outcomes
    return [(source, _filled(source, outcome, last.get(source.spec.name))) for source, outcome in outcomes]


def retell(kind: Kind, query: Query, words: Said, moment: datetime) -> LookupResult:
    """Make the answer to `query` that these sources alone give, with the whole of its lists.

    Args:
        kind: of the lookup.
        query: normalised.
        words: what each of them says. All others are as if they were not set up.
        moment: of the answer: what the clocks show.
    """
    outcomes = [
        (source, _repeat_outcome(words[source.spec.name]) if source.spec.name in words else _ABSENT)
        for source in kind.sources
    ]
    return compose(kind, query, outcomes, moment, limit=WHOLE)


def _spoke(source: Source, outcome: Outcome) -> bool:
    return outcome.status in ANSWERS and not outcome.stale and outcome.unsure != source.fields


def _told(outcome: Outcome) -> Fields:
    return {**outcome.fields, **dict.fromkeys(outcome.unsure)}


def _repeat_outcome(words: Mapping[str, object]) -> Outcome:
    known = {path: value for path, value in words.items() if value is not None}
    return Outcome("ok", known, unsure=frozenset(words.keys() - known.keys()))


def _filled(source: Source, outcome: Outcome, last: Mapping[str, object] | None) -> Outcome:
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
