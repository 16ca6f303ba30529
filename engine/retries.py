"""When an attempt that failed is followed by another."""

from __future__ import annotations

from datetime import datetime, timedelta

from engine.calls import Call, Outcome
from language.definition import CallingStep


def next_attempt_at(call: Call, outcome: Outcome, now: datetime) -> datetime | None:
    """The moment of the next attempt; None if there is to be none.

    The pause is the step's own, or what the other side asked for if that is longer; an attempt that could
    only begin after the step's deadline is not made.
    """
    step = call.step
    if not outcome.retryable or not isinstance(step, CallingStep) or call.attempt >= step.retry.max_attempts:
        return None
    moment = now + timedelta(seconds=max(step.retry.delay(call.attempt), outcome.retry_after))
    return None if call.deadline is not None and moment >= call.deadline else moment
