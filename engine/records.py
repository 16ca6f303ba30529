"""The records of a run's steps, in the form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from engine.calls import AttemptResult, Call
from engine.under_way import StepUnderWay
from language.records import FailedAttempt, StepError, StepRecord
from language.steps import CallingStep, Step


class RunEnd(NamedTuple):
    """The end of a run; its output is that of the step `output_of`, if it completed and has one."""

    status: Literal["completed", "failed", "cancelled"]
    error: StepError | None
    output_of: str | None


class Records:
    """The records of a run that have not been taken yet."""

    def __init__(self, run_id: UUID, position: Mapping[str, int]) -> None:
        """Create it without records; `position` maps each step to its position in the list."""
        self._run_id = run_id
        self._position = position
        self._records: list[StepRecord] = []

    def take(self) -> list[StepRecord]:
        """Return the records since the last call."""
        records, self._records = self._records, []
        return records

    def add(
        self,
        step: Step,
        outcome: AttemptResult,
        now: datetime,
        under_way: StepUnderWay,
        *,
        gathered: bool = False,
        **differing: Any,
    ) -> None:
        """Record the outcome of a step.

        Args:
            step: the step.
            outcome: its outcome.
            now: the time.
            under_way: its state before.
            gathered: whether the output is that of the items together.
            differing: the fields of the record that have other values.
        """
        record = StepRecord(
            run_id=self._run_id,
            step_id=step.id,
            position=self._position[step.id],
            status="completed" if outcome.error is None else "failed",
            input=outcome.input,
            output=None if gathered else outcome.output,
            error=outcome.error,
            attempts=max(1, under_way.attempts) if isinstance(step, CallingStep) else 1,
            credits_used=outcome.credits_used,
            started_at=under_way.began,
            completed_at=max(now, under_way.began),
            gathered=gathered,
            items_total=outcome.items and outcome.items.total,
            items_failed=outcome.items and outcome.items.failed,
            attempt_log=_close_log(under_way),
        )
        self._records.append(record._replace(**differing))

    def add_item(self, call: Call, outcome: AttemptResult, now: datetime, under_way: StepUnderWay) -> None:
        """Record the outcome of an item of a step; `call` is its last call."""
        attempts = call.attempt if isinstance(call.step, CallingStep) else 1
        self.add(call.step, outcome, now, under_way, attempts=attempts, item=call.item, attempt_log=())

    def add_cancelled(self, step: Step, now: datetime, under_way: StepUnderWay) -> None:
        """Record a step that was cancelled under way."""
        window = under_way.window
        nothing = AttemptResult(None, items=window and window.tally)
        self.add(step, nothing, now, under_way, gathered=window is not None, status="cancelled")


def _close_log(under_way: StepUnderWay) -> list[FailedAttempt]:
    """Return the log of a step that ends, with the begin of its last attempt."""
    log, began = under_way.attempt_log, {"next_started_at": under_way.attempt_began}
    return [*log[:-1], *(last.model_copy(update=began) for last in log[-1:])]


def with_attempt(step: Step, outcome: AttemptResult, attempt: int) -> AttemptResult:
    """Return the outcome, with the attempt in its error if the step can have several."""
    if outcome.error is None or not attempt or not isinstance(step, CallingStep):
        return outcome
    return outcome._replace(error=outcome.error.model_copy(update={"attempt": attempt}))
