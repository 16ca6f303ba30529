"""The rules for repeated calls: after a failure, or while there is no answer yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from engine.calls import AttemptResult, Call
from language.steps import CallingStep, WaitStep

# An answer wakes the run that waits for it; in any case the run checks again after this time.
_LOOK_AGAIN = timedelta(days=1)


def next_call_at(call: Call, outcome: AttemptResult, now: datetime) -> datetime | None:
    """Return when a call is repeated; None if it is not. A pending call may be woken earlier."""
    if not outcome.pending:
        return next_attempt_at(call, outcome, now)
    return wait_deadline(call.step, call.started_at) if isinstance(call.step, WaitStep) else now + _LOOK_AGAIN


def wait_deadline(step: WaitStep, began: datetime) -> datetime:
    """Return the end of a step's wait for an answer, if the step began at a moment."""
    return began + timedelta(seconds=step.config.timeout)


def next_attempt_at(call: Call, outcome: AttemptResult, now: datetime) -> datetime | None:
    """Return the moment of the next attempt; None if there is none.

    The pause is the step's own, or that of the other side if it is longer. An attempt that could only begin
    after the step's deadline is not made.
    """
    step = call.step
    if not outcome.retryable or not isinstance(step, CallingStep) or call.attempt >= step.retry.max_attempts:
        return None
    moment = now + timedelta(seconds=max(step.retry.delay(call.attempt), outcome.retry_after))
    return None if call.deadline is not None and moment >= call.deadline else moment
