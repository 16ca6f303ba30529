"""When a delay step ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from workflows import templates
from workflows.definition import MAX_DELAY_SECONDS, DelayConfig
from workflows.expressions import ExpressionError


def end_of(config: DelayConfig, scope: Mapping[str, Any], now: datetime) -> datetime:
    """The moment that the step waits for; one in the past is over at once.

    Raises:
        ExpressionError: `until` gives no timestamp with a zone, or one more than 365 days away.
    """
    if config.duration is not None:
        return now + timedelta(seconds=config.duration)
    value = templates.compile_template(config.until).render(scope)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ExpressionError("bad_timestamp", "until must give a time with a zone: 2026-12-24T18:00:00Z.")
    if moment - now > timedelta(seconds=MAX_DELAY_SECONDS):
        raise ExpressionError("delay_too_long", "A delay may last 365 days at most.")
    return moment.astimezone(UTC)
