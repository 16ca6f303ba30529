"""The answers of the last moments, failures included: whoever repeats a question at once is told the same."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

from providers.lookup.result import LookupResult, all_kept
from providers.sources.base import RemoteSource

_SECONDS = 3.0
# Less than the first pause before a step tries again.
_FAILED_SECONDS = 0.9
_MOST = 512


class RecentAnswers:
    """Answers by what was asked. Whoever gets one must not change it."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, tuple[float, LookupResult, bool]] = OrderedDict()

    def find(self, asked: Hashable) -> LookupResult | None:
        """The answer that was given to the same a moment ago, as it is told to who asks again."""
        until, result, told = self._answers.get(asked, (0.0, None, False))
        if result is None or until <= time.monotonic():
            return None
        if not told:
            result = _again(result)
            self._answers[asked] = (until, result, True)
        return result

    def add(self, asked: Hashable, result: LookupResult) -> None:
        """Keep an answer for a moment."""
        now = time.monotonic()
        while self._answers and (len(self._answers) >= _MOST or next(iter(self._answers.values()))[0] <= now):
            self._answers.popitem(last=False)
        if "results" in result.data:  # one page of maybe thousands, which nobody asks of what is remembered
            named = (
                (one, outcome._replace(fields=dict.fromkeys(outcome.fields)))
                for one, outcome in result.outcomes
            )
            result = replace(result, outcomes=list(named))
        failed = result.partial and any(outcome.failed for _, outcome in result.outcomes)
        self._answers[asked] = (now + (_FAILED_SECONDS if failed else _SECONDS), result, False)
        self._answers.move_to_end(asked)


def _again(result: LookupResult) -> LookupResult:
    """The answer with those sources as kept that answered over the network."""
    outcomes = [
        (source, outcome._replace(status="cached", ms=0))
        if isinstance(source, RemoteSource) and outcome.status in ("ok", "empty")
        else (source, outcome)
        for source, outcome in result.outcomes
    ]
    return replace(result, outcomes=outcomes, cached=all_kept(outcomes))
