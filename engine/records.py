"""What the steps of a run did, as it is to be stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from engine.calls import Outcome
from engine.state import StepUnderWay
from language.definition import CallingStep, Step
from language.records import StepRecord


class Records:
    """The records of a run that nobody has taken yet."""

    def __init__(self, run_id: UUID, position: Mapping[str, int]) -> None:
        """Prepare; `position`: of each step in the list."""
        self._run_id = run_id
        self._position = position
        self._records: list[StepRecord] = []

    def take(self) -> list[StepRecord]:
        """Those since this was last asked."""
        records, self._records = self._records, []
        return records

    def add(
        self,
        step: Step,
        outcome: Outcome,
        now: datetime,
        under_way: StepUnderWay,
        *,
        status: Any = None,
        attempts: int = 0,
        item: int | None = None,
        gathered: bool = False,
    ) -> None:
        """Record what a step, or an item of it, came to.

        Args:
            step: which.
            outcome: of it.
            now: the time.
            under_way: how far it was.
            status: if it is not told by the outcome.
            attempts: of the item.
            item: which, if it is one.
            gathered: the output is that of the items together.
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


def with_attempt(step: Step, outcome: Outcome, attempt: int) -> Outcome:
    """Give the outcome, its error with the attempt that brought it if the step has several."""
    if outcome.error is None or not attempt or not isinstance(step, CallingStep):
        return outcome
    return outcome._replace(error=outcome.error.model_copy(update={"attempt": attempt}))


def size_of(output: Any) -> int:
    """Tell the bytes of an output as JSON; 0 where there is none."""
    return len(orjson.dumps(output)) if output is not None else 0
