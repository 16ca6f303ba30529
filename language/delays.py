"""When a delay step ends."""

from __future__ import annotations

from datetime import datetime, timedelta

from language.definition import MAX_DELAY_SECONDS, DelayConfig
from language.expressions import JSON, ExpressionError
from language.expressions.times import moment_of


def end_of(config: DelayConfig, until: JSON, now: datetime) -> datetime:
    """The moment that the step waits for; one in the past is over at once.

    Args:
        config: of the step.
        until: what its template of that name gives.
        now: the time of the workflow.

    Raises:
        ExpressionError: `until` is no timestamp with a zone, or one more than 365 days away.
    """
    if config.duration is not None:
        return now + timedelta(seconds=config.duration)
    moment = moment_of(until) if isinstance(until, str) else None
    if moment is None:
        raise ExpressionError("bad_timestamp", "until must give a time with a zone: 2026-12-24T18:00:00Z.")
    if moment - now > timedelta(seconds=MAX_DELAY_SECONDS):
        raise ExpressionError("delay_too_long", "A delay may last 365 days at most.")
    return moment


def written(moment: datetime) -> str:
    """A time as the API writes it."""
    return moment.isoformat().replace("+00:00", "Z")
