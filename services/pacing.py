"""How long work that nobody waits for should wait for sources that are over their limits."""

from __future__ import annotations

from collections.abc import Iterable

from models.lookups import AllProvidersFailed
from providers.result import LookupResult

SHORT_SECONDS = 60.0
"""How long a source may have an answer wait that others have given already."""

PATIENCE_SECONDS, LONGEST_SECONDS = 600.0, 86_400.0
"""After how long without any progress an answer is taken as it is, and a failure as one."""

OUTAGE_SECONDS = 120.0
"""The same for a failure where sources were left alone because they fail."""

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
        Seconds, and whether they are those until some source may be asked again.
    """
    waits = [*_waits(error)]
    patient = min((wait for wait, longest in waits if wait + idle_seconds <= longest), default=None)
    if patient is not None:
        return patient, True
    if error.repeatable and not waits and tries < len(_AGAIN_SECONDS):
        return _AGAIN_SECONDS[tries], False
    return None


def _waits(error: AllProvidersFailed) -> Iterable[tuple[float, float]]:
    """When sources that were not asked can be asked again, and how long waiting for that may last."""
    for report in error.details["providers"]:
        seconds = float(report.get("retry_after") or 1)
        if report["status"] == "rate_limited":
            yield seconds, LONGEST_SECONDS
        elif report.get("detail") == "cooling_down":
            yield seconds, OUTAGE_SECONDS
