"""An answer made anew of what the sources said, whenever that was.

A monitor keeps what each source said when it last answered. From that it has the answer that all of them
would give together, and the one that some of them would have given before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from providers.base import Kind, Query
from providers.composing import compose
from providers.result import ANSWERS, NOT_ASKED, LookupResult, Outcome, Outcomes, suppressed

Said = Mapping[str, Mapping[str, Any]]
"""Source → its fields, named as in the kind that it stands in."""

WHOLE = 1_000_000
"""The limit with which lists are delivered whole."""

_ABSENT = Outcome("skipped", detail=NOT_ASKED)


def said(outcomes: Outcomes) -> Said:
    """What the sources say that have answered; without those that are silent, stale or were not asked."""
    return {
        source.spec.name: outcome.fields
        for source, outcome in outcomes
        if outcome.status in ANSWERS and not outcome.stale
    }


def filled_up(outcomes: Outcomes, last: Said) -> Outcomes:
    """The outcomes, where each source that has not answered says again what it said last, if it ever did.

    Of a person who is `suppressed` nothing is said again: what was kept of them is to be forgotten.
    """
    if suppressed(outcomes):
        return outcomes
    now = said(outcomes)
    return [
        (source, Outcome("ok", dict(last[source.spec.name])))
        if source.spec.name in last and source.spec.name not in now
        else (source, outcome)
        for source, outcome in outcomes
    ]


def retell(kind: Kind, query: Query, words: Said, moment: datetime) -> LookupResult:
    """Make the answer to `query` that these sources alone give, with the whole of its lists.

    Args:
        kind: of the lookup.
        query: normalised.
        words: what each of them says. All others are as if they were not set up.
        moment: of the answer: what the clocks show.
    """
    outcomes = [
        (source, Outcome("ok", dict(words[source.spec.name])) if source.spec.name in words else _ABSENT)
        for source in kind.sources
    ]
    return compose(kind, query, outcomes, moment, limit=WHOLE)
