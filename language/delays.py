"""The end of a delay step."""

from __future__ import annotations

from datetime import datetime, timedelta

from language.durations import seconds_of
from language.expressions import JSON, ExpressionError
from language.expressions.times import moment_of
from language.steps import MAX_DELAY_SECONDS, DelayConfig


def end_of(config: DelayConfig, given: JSON, now: datetime) -> datetime:
    """Return the moment that the step waits for; a past one is over at once.

    Args:
        config: of the step.
        given: the value of its template, if it has one.
        now: the time of the workflow.

    Raises:
        ExpressionError: the template's value is neither a duration nor a timestamp with a zone, or lies more
            than 365 days ahead.
    """
    if config.until is None:
        return now + timedelta(seconds=_seconds_of(config, given))
    moment = moment_of(given) if isinstance(given, str) else None
    if moment is None:
        raise ExpressionError("bad_timestamp", "until must give a time with a zone: 2026-12-24T18:00:00Z.")
    if moment - now > timedelta(seconds=MAX_DELAY_SECONDS):
        raise ExpressionError("delay_too_long", "A delay may last 365 days at most.")
    return moment


def _seconds_of(config: DelayConfig, given: JSON) -> float:
    if config.template is None and config.constant_seconds is not None:
        return config.constant_seconds
    seconds = seconds_of(given) if isinstance(given, str) else None
    if seconds is None:
        raise ExpressionError("bad_duration", "duration must give text such as 5m, 1h30m, 2d or PT5M.")
    if seconds > MAX_DELAY_SECONDS:
        raise ExpressionError("delay_too_long", "A delay may last 365 days at most.")
    return seconds


def write_time(moment: datetime) -> str:
    """Return a time in the form of the API."""
    return moment.isoformat().replace("+00:00", "Z")
