"""The records of a run's steps, in the form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from engine.calls import AttemptResult
from engine.state import StepUnderWay
from language.records import StepRecord
from language.steps import CallingStep, Step


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
        status: Any = None,
        attempts: int = 0,
        item: int | None = None,
        gathered: bool = False,
    ) -> None:
        """Record the outcome of a step, or of an item of it.

        Args:
            step: the step.
            outcome: its outcome.
            now: the time.
            under_way: its state before.
            status: the status, if it does not follow from the outcome.
            attempts: the number of attempts of the item.
            item: the index of the item, if it is one.
            gathered: whether the output is that of the items together.
        """
        record = StepRecord(
            run_id=self._run_id,
            step_id=step.id,
            position=self._position[step.id],
            status=status or ("completed" if outcome.error is None else "failed"),
            input=outcome.input,
            output=None if gathered else outcome.output,
            error=outcome.error,
            attempts=(attempts or max(1, under_way.attempts)) if isinstance(step, CallingStep) else 1,
            credits_used=outcome.credits_used,
            started_at=under_way.began,
            completed_at=max(now, under_way.began),
            item=item,
            gathered=gathered,
            items_total=outcome.items and outcome.items.total,
            items_failed=outcome.items and outcome.items.failed,
            attempt_log=() if item is not None else under_way.attempt_log,
        )
        self._records.append(record)


def with_attempt(step: Step, outcome: AttemptResult, attempt: int) -> AttemptResult:
    """Return the outcome, with the attempt in its error if the step can have several."""
    if outcome.error is None or not attempt or not isinstance(step, CallingStep):
        return outcome
    return outcome._replace(error=outcome.error.model_copy(update={"attempt": attempt}))


def size_of(output: Any) -> int:
    """Return the size of an output as JSON, in bytes; 0 without an output."""
    return len(orjson.dumps(output)) if output is not None else 0
