"""An answer made anew of what the sources said, whenever that was.

A monitor keeps what each source said when it last answered. From that it has the answer that all of them
would give together, and the one that some of them would have given before.
"""

from __future__ import annotations

from datetime import datetime

from models.monitors.snapshots import Said
from providers.base import Kind, Query
from providers.composing import compose
from providers.result import ANSWERS, NOT_ASKED, LookupResult, Outcome, Outcomes, suppressed

WHOLE = 1_000_000
"""The limit with which lists are delivered whole."""

_ABSENT = Outcome("skipped", detail=NOT_ASKED)


def said(outcomes: Outcomes) -> Said:
    """Tell what each source says that has answered: none that is silent or stale, or was not asked."""
    return {
        source.spec.name: outcome.fields
        for source, outcome in outcomes
        if outcome.status in ANSWERS and not outcome.stale
    }


def filled_up(outcomes: Outcomes, last: Said) -> Outcomes:
    """Let each source that has not answered say again what it said last, if it ever did.

    An answer composed of that has the right `data`; what became of the sources is told by `outcomes` alone.
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
