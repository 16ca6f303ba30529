"""What an activity of a step has to tell: results for the workflow, records for the database."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from engine.calls import Outcome
from language.definition import CallingStep
from language.records import StepError, StepRecord
from workflows.messages import StepCall, StepCalls, StepResult, most_inline

Key = tuple[UUID, int | None]
"""A row, or an item of it."""


class Report:
    """Collects what is done. Large outputs stay in their rows: the workflow gets a reference.

    Attributes:
        repeated: the rows and items that an earlier attempt of the activity has done.
    """

    def __init__(self, calls: StepCalls, *, final: bool) -> None:
        """Begin. `final`: what comes is the outcome of the step, to be recorded."""
        self.repeated: set[Key] = set()
        self._results: dict[Key, StepResult] = {}
        self._calls = calls
        self._final = final
        self._records = list(calls.records)
        self._room = calls.room

    @property
    def results(self) -> list[StepResult]:
        """All so far."""
        return list(self._results.values())

    def results_of(self, keys: Iterable[Key]) -> list[StepResult]:
        """Those of these rows and items."""
        return [self._results[key] for key in keys]

    def take_records(self) -> list[StepRecord]:
        """What is to be stored now."""
        records, self._records = self._records, []
        return records

    def repeat(self, records: Iterable[StepRecord]) -> None:
        """Tell again what an earlier attempt has stored, perhaps without being able to tell."""
        attempts = self._attempts()
        for record in records:
            if (key := (record.run_id, record.item)) in attempts:
                self.repeated.add(key)
                self._tell(record, attempts[key])

    def correct(self, records: Iterable[StepRecord]) -> None:
        """Tell what is stored in place of what was to be: the first record stands, whoever wrote it."""
        attempts = self._attempts()
        for record in records:
            if (key := (record.run_id, record.item)) in self._results:
                self._tell(record, attempts[key])

    def _attempts(self) -> dict[Key, int]:
        attempts: dict[Key, int] = {}
        for call in self._calls.calls:
            if not call.items:
                attempts[call.run_id, None] = call.attempt
            for one in call.items:
                attempts[call.run_id, one.item] = one.attempt
        return attempts

    def _tell(self, record: StepRecord, attempt: int) -> None:
        status = "completed" if record.status == "completed" else "failed"
        result = self._result(record.run_id, record.item, attempt, status, record.output)
        self._results[record.run_id, record.item] = result.model_copy(update={"error": record.error})

    def cancel(self, run_id: UUID) -> None:
        """Note that somebody wants the run to end."""
        self._results[run_id, None] = StepResult(run_id=run_id, status="cancelled")

    def add(self, call: StepCall, item: int | None, attempt: int, outcome: Outcome) -> None:
        """Note an attempt that is over; what is final goes to the records too."""
        delay = self._delay(call, attempt, outcome)
        status = "completed" if outcome.error is None else "failed"
        result = self._result(call.run_id, item, attempt, status, outcome.output)
        error = self._error(outcome, attempt)
        result = result.model_copy(update={"error": error, "retry_after": delay})
        self._results[call.run_id, item] = result
        if delay is None and self._final:
            self._records.append(self._record(call, item, attempt, outcome))

    def _result(self, run_id: UUID, item: int | None, attempt: int, status: Any, output: Any) -> StepResult:
        kept = output if self._calls.keep_output else None
        # The items of a step are counted together, read or not.
        counted = output if item is not None else kept
        size = len(orjson.dumps(counted)) if counted is not None else 0
        stored = self._final and kept is not None and size > most_inline(self._room)
        self._room -= size if kept is not None and not stored else 0
        return StepResult(
            run_id=run_id,
            item=item,
            attempt=attempt,
            status=status,
            output=None if stored else kept,
            size=size,
            stored=stored,
        )

    def _error(self, outcome: Outcome, attempt: int) -> StepError | None:
        """The error, with the attempt where there can be several: what the workflow evaluates has one."""
        if outcome.error is None or not self._final or not isinstance(self._calls.step, CallingStep):
            return outcome.error
        return outcome.error.model_copy(update={"attempt": attempt})

    def _delay(self, call: StepCall, attempt: int, outcome: Outcome) -> float | None:
        """The seconds until the next attempt; None if there is to be none."""
        step = self._calls.step
        if not outcome.retryable or not isinstance(step, CallingStep) or attempt >= step.retry.max_attempts:
            return None
        delay = max(step.retry.delay(attempt), outcome.retry_after)
        if call.deadline is not None and datetime.now(UTC) + timedelta(seconds=delay) >= call.deadline:
            return None
        return delay

    def _record(self, call: StepCall, item: int | None, attempt: int, outcome: Outcome) -> StepRecord:
        return StepRecord(
            run_id=call.run_id,
            step_id=self._calls.step.id,
            position=self._calls.position,
            status="completed" if outcome.error is None else "failed",
            input=outcome.input,
            output=outcome.output,
            error=self._error(outcome, attempt),
            attempts=attempt,
            credits_used=outcome.credits_used,
            started_at=call.started_at,
            completed_at=max(datetime.now(UTC), call.started_at),
            item=item,
        )
