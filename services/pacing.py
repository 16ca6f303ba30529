"""How long work that nobody waits for should wait for sources that are over their limits."""

from __future__ import annotations

from collections.abc import Iterable

from models.lookups import AllProvidersFailed
from providers.result import LookupResult

SHORT_SECONDS = 60.0
"""How long a source may have an answer wait that others have given already."""

PATIENCE_SECONDS, LONGEST_SECONDS = 600.0, 86_400.0
"""After how long without any progress an answer is taken as it is, and a failure as one."""

# How long after a failure of another sort it is tried once more.
_AGAIN_SECONDS = (2.0, 10.0)


def wait_for_more(result: LookupResult, idle_seconds: float) -> float | None:
    """How long an answer should wait for sources that were over their limits; None if it is good as it is.

    Args:
        result: the answer.
        idle_seconds: for how long waiting has led to nothing.
    """
    if idle_seconds > PATIENCE_SECONDS:
        return None
    limited = (
        outcome.retry_after or 1.0 for _, outcome in result.outcomes if outcome.status == "rate_limited"
    )
    return min((seconds for seconds in limited if seconds <= SHORT_SECONDS), default=None)


def wait_for_any(error: AllProvidersFailed, tries: int, idle_seconds: float) -> tuple[float, bool] | None:
    """How long what nobody has answered should wait; None if it has failed.

    Args:
        error: how.
        tries: how often it was tried once more because of another failure than limits.
        idle_seconds: for how long waiting has led to nothing.

    Returns:
        Seconds, and whether limits are the reason.
    """
    limited = min(_limited(error), default=None)
    if limited is not None and limited + idle_seconds <= LONGEST_SECONDS:
        return limited, True
    if error.repeatable and limited is None and tries < len(_AGAIN_SECONDS):
        return _AGAIN_SECONDS[tries], False
    return None


def _limited(error: AllProvidersFailed) -> Iterable[float]:
    for report in error.details["providers"]:
        if report["status"] == "rate_limited":
            yield float(report.get("retry_after") or 1)
