"""`AutomationBatch`: runs one definition over the rows of a batch, as a dataflow.

A step takes every row that is ready for it and issues one activity for them all. Rows share work where they
run together and part where they do not; there are no groups and no barriers. One coroutine owns the state:
whatever completes, and every signal, only appends to the inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from workflows import delays, expressions, policies
    from workflows.dataflow import Plan, RowState
    from workflows.definition import ConditionStep, Definition, DelayStep, Step, TransformStep
    from workflows.messages import (
        END_RUNS,
        LOOKUP_MANY,
        PARK_RUNS,
        SEND_MANY,
        TAKE_EARLY_RESULTS,
        WAKE_RUNS,
        Batch,
        EarlyResults,
        Ending,
        ParkedRun,
        Parking,
        Pause,
        RunEndings,
        StepCall,
        StepCalls,
        StepError,
        StepRecord,
        StepResult,
        StepResults,
    )

# A longer delay leaves the batch: a timer of the server's own holds it, for a year if need be.
LONGEST_PAUSE = timedelta(minutes=5)
# How many expression nodes are visited before the rest is left to the next workflow task: about a quarter of
# a second, far from the two seconds after which the SDK takes a task for stuck.
_NODES_PER_TASK = 300_000
_BREATH = timedelta(milliseconds=1)


@workflow.defn
class AutomationBatch:
    """Runs of one workflow version, accepted together, done together."""

    @workflow.init
    def __init__(self, batch: Batch) -> None:
        self._inbox: list[Callable[[], None]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._batch = batch

    @workflow.run
    async def run(self, batch: Batch) -> None:
        """Run every row to its end, or to a long delay."""
        if batch.definition is None:
            batch = await self._woken(batch)
        self._prepare(batch)
        self._advance()
        while self._under_way or self._inbox:
            await workflow.wait_condition(lambda: bool(self._inbox))
            inbox, self._inbox = self._inbox, []
            for take in inbox:
                take()
            self._advance()

    @workflow.signal
    def cancel_runs(self, run_ids: list[UUID]) -> None:
        """End these runs now; their batch mates go on."""
        self._inbox.append(lambda: self._cancel(run_ids))

    @workflow.signal(name=TAKE_EARLY_RESULTS)
    def take_early_results(self, early: EarlyResults) -> None:
        """Let rows go on whose call is done, while their activity still waits for others."""

        def take() -> None:
            step = self._plan.steps[self._plan.position[early.step_id]]
            self._take_results(step, early.attempts, early.results)

        self._inbox.append(take)

    async def _woken(self, batch: Batch) -> Batch:
        return await workflow.execute_activity(
            WAKE_RUNS,
            batch,
            result_type=Batch,
            start_to_close_timeout=policies.SHORT,
            schedule_to_close_timeout=policies.A_DAY,
            retry_policy=policies.LOST_WORKER,
        )

    def _prepare(self, batch: Batch) -> None:
        self._batch = batch
        definition = Definition.model_validate(batch.definition)
        described = {"id": str(batch.automation_id), "name": definition.name}
        self._plan = Plan(definition)
        self._rows = [RowState(self._plan, row, described) for row in batch.rows]
        self._row_of = {row.run_id: row for row in self._rows}

    def _advance(self) -> None:
        """Do all that can be done now: pure steps at once, the others as one activity a step."""
        wanted: dict[int, list[RowState]] = {}
        paused: dict[tuple[int, datetime], list[RowState]] = {}
        self._nodes = 0
        for row in self._rows:
            if self._nodes > _NODES_PER_TASK:
                self._start(self._breathe())
                break
            for step in row.ready() if not row.ended else ():
                position = self._plan.position[step.id]
                if isinstance(step, ConditionStep | TransformStep):
                    self._evaluate(row, step)
                elif isinstance(step, DelayStep):
                    end = self._pause(row, step)
                    if end is not None:
                        paused.setdefault((position, end), []).append(row)
                else:
                    wanted.setdefault(position, []).append(row)
        for position, rows in sorted(wanted.items()):
            self._issue(self._plan.steps[position], position, rows)
        for (position, end), rows in sorted(paused.items(), key=lambda item: item[0]):
            self._start(self._sleep(self._plan.steps[position], end, rows))
        self._park([row for row in self._rows if not row.ended and row.only_pauses])
        self._end([row for row in self._rows if not row.ended and row.finished])

    def _evaluate(self, row: RowState, step: ConditionStep | TransformStep) -> None:
        # Of its own for each row and step: what a row gets never depends on its batch mates.
        budget = expressions.Budget()
        most = budget.nodes_left
        try:
            self._settle(row, step, _value(row.scope, step, budget))
        except expressions.ExpressionError as problem:
            self._settle(row, step, error=StepError(code=problem.code, message=problem.message))
        self._nodes += most - budget.nodes_left

    async def _breathe(self) -> None:
        """End this workflow task; the next goes on with the rows that are left."""
        await workflow.sleep(_BREATH, summary="much to evaluate")

    def _settle(self, row: RowState, step: Step, output: Any = None, error: StepError | None = None) -> None:
        """Settle a step that the workflow did by itself; its record goes along with the next activity."""
        status = "completed" if error is None else "failed"
        now = workflow.now()
        record = StepRecord(
            run_id=row.run_id,
            step_id=step.id,
            position=self._plan.position[step.id],
            status=status,
            output=output,
            error=error,
            started_at=row.began.get(step.id, now),
            completed_at=now,
        )
        row.records.append(record)
        row.settle(step.id, status, output, error)

    def _issue(self, step: Step, position: int, rows: list[RowState]) -> None:
        """Start one activity for a step over the rows that are ready for it."""
        assert not isinstance(step, ConditionStep | DelayStep | TransformStep)
        calls: list[StepCall] = []
        for row in rows:
            row.at_work.add(step.id)
            row.attempts[step.id] = row.attempts.get(step.id, 0) + 1
            calls.append(
                StepCall(
                    run_id=row.run_id,
                    scope={root: row.scope.get(root) for root in self._plan.reads[step.id]},
                    attempt=row.attempts[step.id],
                    started_at=row.began.setdefault(step.id, workflow.now()),
                )
            )
        message = StepCalls(
            batch_id=self._batch.batch_id,
            account_id=self._batch.account_id,
            step=step,
            position=position,
            calls=calls,
            records=_take_records(rows),
            keep_output=self._plan.keeps(step.id),
        )
        self._start(self._call(step, message))

    async def _call(self, step: Step, calls: StepCalls) -> None:
        try:
            results: StepResults = await workflow.execute_activity(
                SEND_MANY if step.type == "webhook" else LOOKUP_MANY,
                calls,
                result_type=StepResults,
                start_to_close_timeout=policies.start_to_close(calls),
                schedule_to_close_timeout=policies.A_DAY,
                heartbeat_timeout=policies.HEARTBEAT,
                retry_policy=policies.LOST_WORKER,
                summary=f"{step.id}: {len(calls.calls)} rows",
            )
        except ActivityError:
            self._inbox.append(lambda: self._give_up(step, calls))
        else:
            attempts = {call.run_id: call.attempt for call in calls.calls}
            self._inbox.append(lambda: self._take_results(step, attempts, results.results))

    def _give_up(self, step: Step, calls: StepCalls) -> None:
        """Fail the step in every row; its records go with the ending."""
        error = StepError(code="engine_error", message="The step could not be done or stored for a day.")
        for record in calls.records:
            self._row_of[record.run_id].records.append(record)
        for call in calls.calls:
            row = self._row_of[call.run_id]
            if not row.ended and call.attempt > row.taken.get(step.id, 0):
                self._settle(row, step, error=error)

    def _take_results(self, step: Step, attempts: dict[UUID, int], results: list[StepResult]) -> None:
        """Settle each row by its result, the first of each attempt; a row without one is no longer ours."""
        result_of = {result.run_id: result for result in results}
        for run_id, attempt in attempts.items():
            row, result = self._row_of[run_id], result_of.get(run_id)
            if row.ended or attempt <= row.taken.get(step.id, 0):
                continue
            row.taken[step.id] = attempt
            if result is None:
                row.ended = True
            elif result.status == "cancelled":
                self._cancel([row.run_id])
            elif result.retry_after is not None:
                self._start(self._back_off(row, step, result))
            else:
                row.settle(step.id, result.status, result.output, result.error)

    async def _back_off(self, row: RowState, step: Step, result: StepResult) -> None:
        assert result.retry_after is not None
        await workflow.sleep(
            result.retry_after, summary=f"{step.id}: before attempt {row.attempts[step.id] + 1}"
        )
        self._inbox.append(lambda: row.at_work.discard(step.id))

    def _pause(self, row: RowState, step: DelayStep) -> datetime | None:
        """Begin a delay: when it ends, if a timer of this batch is to wait for that."""
        now = workflow.now()
        begun = row.pauses.pop(step.id, None)
        row.began[step.id] = begun.since if begun else now
        try:
            end = begun.until if begun else delays.end_of(step.config, row.scope, now)
        except expressions.ExpressionError as problem:
            self._settle(row, step, error=StepError(code=problem.code, message=problem.message))
            return None
        if end <= now:
            self._settle(row, step, {"until": end.isoformat()})
            return None
        row.at_work.add(step.id)
        if end - now <= LONGEST_PAUSE:
            return end
        row.pauses[step.id] = Pause(since=row.began[step.id], until=end)
        return None

    async def _sleep(self, step: Step, end: datetime, rows: list[RowState]) -> None:
        await workflow.sleep(end - workflow.now(), summary=f"{step.id}: {len(rows)} rows")

        def over() -> None:
            for row in rows:
                if not row.ended:
                    self._settle(row, step, {"until": end.isoformat()})

        self._inbox.append(over)

    def _park(self, rows: list[RowState]) -> None:
        """Let rows that wait for nothing but long delays leave, those that wake together as one batch."""
        by_wake: dict[datetime, list[RowState]] = {}
        for row in rows:
            row.ended = True
            by_wake.setdefault(min(pause.until for pause in row.pauses.values()), []).append(row)
        for wake_at, leaving in sorted(by_wake.items(), key=lambda item: item[0]):
            parking = Parking(
                batch=self._batch.model_copy(update={"definition": None, "rows": []}),
                next_id=workflow.uuid4(),
                wake_at=wake_at,
                runs=[ParkedRun(run_id=row.run_id, pauses=row.pauses) for row in leaving],
                records=_take_records(leaving),
            )
            self._start(self._leave(parking))

    async def _leave(self, parking: Parking) -> None:
        stayed: list[UUID] = await workflow.execute_activity(
            PARK_RUNS,
            parking,
            result_type=list[UUID],
            start_to_close_timeout=policies.SHORT,
            schedule_to_close_timeout=policies.A_DAY,
            retry_policy=policies.LOST_WORKER,
            summary=f"{len(parking.runs)} rows until {parking.wake_at.isoformat()}",
        )

        def take_back() -> None:
            for run_id in stayed:
                self._row_of[run_id].ended = False
            self._cancel(stayed)

        self._inbox.append(take_back)

    def _cancel(self, run_ids: list[UUID]) -> None:
        """End rows as cancelled, and so the steps that are under way in them."""
        rows = [self._row_of[run_id] for run_id in run_ids if run_id in self._row_of]
        rows = [row for row in rows if not row.ended]
        now = workflow.now()
        for row in rows:
            for step_id in sorted(row.at_work):
                row.records.append(
                    StepRecord(
                        run_id=row.run_id,
                        step_id=step_id,
                        position=self._plan.position[step_id],
                        status="cancelled",
                        attempts=row.attempts.get(step_id, 1),
                        started_at=row.began.get(step_id, now),
                        completed_at=now,
                    )
                )
        self._end(rows, cancelled=True)

    def _end(self, rows: list[RowState], *, cancelled: bool = False) -> None:
        if not rows:
            return
        for row in rows:
            row.ended = True
        endings = [
            Ending(
                run_id=row.run_id,
                status="cancelled" if cancelled else "failed" if row.error else "completed",
                error=None if cancelled else row.error,
            )
            for row in rows
        ]
        message = RunEndings(batch_id=self._batch.batch_id, endings=endings, records=_take_records(rows))
        self._start(self._write_endings(message))

    async def _write_endings(self, endings: RunEndings) -> None:
        await workflow.execute_local_activity(
            END_RUNS,
            endings,
            start_to_close_timeout=policies.SHORT,
            schedule_to_close_timeout=policies.A_DAY,
            retry_policy=policies.LOST_WORKER,
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` go on beside the main loop; its end wakes the loop, its exception fails the workflow."""

        def done(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            self._inbox.append(task.result)

        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(done)


def _take_records(rows: list[RowState]) -> list[StepRecord]:
    records = [record for row in rows for record in row.records]
    for row in rows:
        row.records = []
    return records


def _value(scope: dict[str, Any], step: ConditionStep | TransformStep, budget: expressions.Budget) -> Any:
    def evaluate(text: str) -> Any:
        return expressions.compile(text).evaluate(scope, budget)

    if isinstance(step, ConditionStep):
        return {"result": expressions.truthy(evaluate(step.config.expression))}
    if step.config.mapping is not None:
        return {name: evaluate(text) for name, text in step.config.mapping.items()}
    assert step.config.expression is not None
    return evaluate(step.config.expression)
