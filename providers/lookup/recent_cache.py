"""A cache of the answers of the last seconds, failures included, for callers that repeat a question."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

from providers.lookup.result import LookupResult, all_kept
from providers.sources.base import RemoteSource

_SECONDS = 3.0
# Less than the first pause of a step before its retry.
_FAILED_SECONDS = 0.9
_MOST = 512


class RecentCache:
    """Recent answers by question. Callers must not change the answers."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[float, LookupResult, bool]] = OrderedDict()

    def find(self, asked: Hashable) -> LookupResult | None:
        """Return the answer to the same question from a moment ago, with its sources marked as cached."""
        until, result, told = self._answers.get(asked, (0.0, None, False))
        if result is None or until <= time.monotonic():
            return None
        if not told:
            result = _again(result)
            self._answers[asked] = (until, result, True)
        return result

    def add(self, asked: Hashable, result: LookupResult) -> None:
        """Store an answer for a moment."""
        now = time.monotonic()
        while self._answers and (len(self._answers) >= _MOST or next(iter(self._answers.values()))[0] <= now):
            self._answers.popitem(last=False)
        if "results" in result.data:  # one page of possibly thousands: later pages never repeat the question
            named = (
                (one, outcome._replace(fields=dict.fromkeys(outcome.fields)))
                for one, outcome in result.outcomes
            )
            result = replace(result, outcomes=list(named))
        failed = result.partial and any(outcome.failed for _, outcome in result.outcomes)
        self._answers[asked] = (now + (_FAILED_SECONDS if failed else _SECONDS), result, False)
        self._answers.move_to_end(asked)


def _again(result: LookupResult) -> LookupResult:
    """Return the answer with each network source that answered marked as cached."""
    outcomes = [
        (source, outcome._replace(status="cached", ms=0))
        if isinstance(source, RemoteSource) and outcome.status in ("ok", "empty")
        else (source, outcome)
        for source, outcome in result.outcomes
    ]
    return replace(result, outcomes=outcomes, cached=all_kept(outcomes))
