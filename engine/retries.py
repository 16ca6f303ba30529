"""When a call is followed by another: one that failed, or to which there was no answer yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from engine.calls import Call, Outcome
from language.definition import CallingStep, WaitStep

# Who brings what a step waits for wakes its run; so often it looks by itself all the same.
_LOOK_AGAIN = timedelta(days=1)


def again_at(call: Call, outcome: Outcome, now: datetime) -> datetime | None:
    """Tell when a call is made once more; None if it is not. What is pending may be woken before."""
    if not outcome.pending:
        return next_attempt_at(call, outcome, now)
    return end_of_wait(call.step, call.started_at) if isinstance(call.step, WaitStep) else now + _LOOK_AGAIN


def end_of_wait(step: WaitStep, began: datetime) -> datetime:
    """Tell until when a step waits for somebody that has begun at a moment."""
    return began + timedelta(seconds=step.config.timeout)


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
