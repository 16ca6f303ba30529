"""What a batch does next: the rows of a definition, the results that come in, the commands that go out.

Pure: it knows neither Temporal nor a clock, so the workflow can carry out the commands, and a test can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from engine.plan import Plan
from language import delays, expressions, step_evaluation
from language.definition import CallingStep, ConditionStep, Definition, DelayStep, Step, TransformStep
from language.delays import written
from language.records import INLINE_BYTES, LiveStep, StepError
from workflows.bounds import Bounds
from workflows.calls import BREATH, Call, Command, Outbox, Work
from workflows.dataflow import RowState, Wait
from workflows.iteration import Iteration
from workflows.messages import (
    EVALUATE_MANY,
    LOOKUP_MANY,
    PREPARE_MANY,
    SEND_MANY,
    Batch,
    EarlyResults,
    ItemCall,
    Pause,
    Progress,
    StepCalls,
    StepResult,
)

# For longer a run leaves the batch: a timer of the server's own holds it, for a year if need be.
LONGEST_NAP = timedelta(minutes=5)


class Interpreter:
    """The rows of a batch. Tell it what came in, then ask it to advance."""

    def __init__(self, batch: Batch, now: Callable[[], datetime]) -> None:
        """Prepare.

        Args:
            batch: with its definition and rows.
            now: the time, the same for as long as one workflow task lasts.
        """
        definition = Definition.model_validate(batch.definition)
        described = {"id": str(batch.automation_id), "name": definition.name}
        self._now = now
        self._plan = plan = Plan(definition)
        self._rows = [RowState(plan, row, described, batch.progress.get(row.run_id)) for row in batch.rows]
        self._row_of = {row.run_id: row for row in self._rows}
        self._out = Outbox(batch, plan, now)
        self._work: dict[tuple[int, str, int], list[Work]] = {}
        self._bounds = Bounds()

    def advance(self) -> list[Command]:
        """Do all that can be done now: pure steps at once, the others as one activity a step."""
        self._work = {}
        self._bounds.begin_task(self._rows)
        begun: list[RowState] = []
        for row in self._rows:
            if self._bounds.reached or not (row.ended or self._begin_steps(row)):
                self._out.timer(self._now() + BREATH, "much to evaluate", lambda: None)
                break
            begun.append(row)
        for (position, activity, _), work in sorted(self._work.items(), key=lambda entry: entry[0]):
            # A step further down the list may have failed the run meanwhile.
            if work := [one for one in work if one.row.error is None]:
                self._out.call(activity, position, work, self._bounds.room)
        for row in begun:
            if row.error is not None and row.rests and not row.ended:
                self._cancel_steps(row)
        self._out.end([row for row in begun if not row.ended and row.finished])
        self._wait([row for row in begun if not row.ended and row.error is None])
        return self._out.take()

    def commands(self) -> list[Command]:
        """What the results that came in ask for by themselves, when nothing new is to be begun."""
        return self._out.take()

    def close(self) -> list[Command]:
        """What is to be stored before a new history begins."""
        self._out.store([row for row in self._rows if not row.ended])
        return self._out.take()

    @property
    def ended(self) -> bool:
        """Whether no row is left, nor anything to be carried out."""
        return self._out.empty and all(row.ended for row in self._rows)

    @property
    def nodes(self) -> int:
        """What it has evaluated so far by itself, in nodes of expressions."""
        return self._bounds.nodes

    def progress(self) -> dict[UUID, Progress]:
        """What a new history needs to go on with the rows that are left."""
        return {row.run_id: row.progress() for row in self._rows if not row.ended}

    def live_steps(self, run_id: UUID) -> list[LiveStep]:
        """The steps of a run that are under way."""
        row = self._row_of.get(run_id)
        if row is None or row.ended:
            return []
        return [row.live(step_id) for step_id in row.under_way]

    def take_results(self, call: Call, results: list[StepResult]) -> None:
        """Settle each row by its result; a row without one is no longer ours."""
        self._out.ended()
        step = call.calls.step
        for record in call.calls.records:
            self._row_of[record.run_id].note_stored(record)
        if call.activity == PREPARE_MANY:
            self._take_prepared(step, call.calls, results)
            return
        attempts = {one.run_id: one.attempt for one in call.calls.calls}
        for result in results:
            self._take_result(step, result, attempts[result.run_id])
        answered = {result.run_id for result in results}
        for one in call.calls.calls:
            row = self._row_of[one.run_id]
            if one.run_id not in answered and (one.items or one.attempt > row.taken.get(step.id, 0)):
                row.ended = True

    def take_early_results(self, early: EarlyResults) -> None:
        """Settle rows whose call is done, while their activity still waits for others."""
        step = self._plan.steps[self._plan.position[early.step_id]]
        for result in early.results:
            self._take_result(step, result, early.attempts.get(result.run_id, 0))

    def give_up(self, call: Call) -> None:
        """Fail a step that no worker could do or store, in every row; its records go with the ending."""
        error = StepError(code="engine_error", message="The step could not be done or stored for a day.")
        self._out.ended()
        step = call.calls.step
        for record in call.calls.records:
            self._row_of[record.run_id].recall_record(record.step_id)
        for one in call.calls.calls:
            row = self._row_of[one.run_id]
            if not row.ended and step.id in row.at_work and one.attempt > row.taken.get(step.id, 0):
                row.taken[step.id] = one.attempt
                self._settle(row, step, error=error)

    def cancel(self, run_ids: Iterable[UUID]) -> None:
        """End rows as cancelled, and so the steps that are under way in them."""
        rows = [self._row_of[run_id] for run_id in run_ids if run_id in self._row_of]
        rows = [row for row in rows if not row.ended]
        for row in rows:
            # An activity under way may come too late to store what was sent along.
            row.recall_records()
            self._cancel_steps(row)
        self._out.end(rows, cancelled=True)

    def _cancel_steps(self, row: RowState) -> None:
        """End the steps that are under way."""
        for step_id in row.under_way:
            row.add_record(self._out.record(row, step_id, "cancelled"))
            row.settle(step_id, "cancelled")

    def take_back(self, run_ids: list[UUID]) -> None:
        """Rows that could not leave, since somebody cancels them."""
        for run_id in run_ids:
            self._row_of[run_id].ended = False
        self.cancel(run_ids)

    def _begin_steps(self, row: RowState) -> bool:
        """Begin what is ready. False: there is more, for the next workflow task."""
        for step in row.ready():
            if self._bounds.reached:
                return False
            if step.id in row.backoffs:
                row.at_work.add(step.id)
            elif isinstance(step, DelayStep):
                self._pause(row, step)
            elif isinstance(step, ConditionStep | TransformStep):
                if not self._evaluate(row, step):
                    self._want(EVALUATE_MANY, row, step)
            elif step.for_each is None:
                self._want(_activity_of(step), row, step)
            elif step.id not in row.iterations:
                self._begin_iteration(row, step)
        for step_id, iteration in row.iterations.items():
            step, part = self._plan.steps[self._plan.position[step_id]], 0
            if row.error is not None:
                iteration.stop()
            # Parts of their own, so that the next can begin when one of them is done.
            while items := iteration.take():
                self._want(_activity_of(step), row, step, items, part)
                part += 1
        return True

    def _want(
        self, activity: str, row: RowState, step: Step, items: list[ItemCall] | None = None, part: int = 0
    ) -> None:
        key = (self._plan.position[step.id], activity, part)
        self._work.setdefault(key, []).append(Work(row, items or []))

    def _evaluate(self, row: RowState, step: ConditionStep | TransformStep) -> bool:
        """Do a pure step here. False: an activity must, since its data is stored, or there is much of it."""
        roots = (*self._plan.reads[step.id], *self._plan.iterates[step.id])
        try:
            found = self._bounds.evaluate(
                row, roots, lambda budget: step_evaluation.evaluate(step, row.scope, budget)
            )
        except expressions.ExpressionError as problem:
            self._settle(row, step, error=_error(problem))
            return True
        if found is None or not self._bounds.keep(found.size):
            return False
        self._settle(row, step, found.value, found.size)
        return True

    def _begin_iteration(self, row: RowState, step: CallingStep) -> None:
        """Find out over which items a step goes."""
        items: list[Any] | int | None = row.prepared.get(step.id)
        if items is None:
            roots = self._plan.iterates[step.id]
            try:
                found = self._bounds.evaluate(
                    row, roots, lambda budget: step_evaluation.items_of(step, row.scope, budget)
                )
            except expressions.ExpressionError as problem:
                self._settle(row, step, error=_error(problem))
                return
            if found is None:
                self._want(PREPARE_MANY, row, step)
                return
            items = found.value if found.size <= INLINE_BYTES else len(found.value)
        tried = row.items_tried.get(step.id, {})
        done = row.items_done.get(step.id, [])
        row.at_work.add(step.id)
        row.began.setdefault(step.id, self._now())
        row.iterations[step.id] = iteration = Iteration(items, step.max_concurrency, done, tried)
        self._finish_iteration(row, step, iteration)

    def _finish_iteration(self, row: RowState, step: Step, iteration: Iteration) -> None:
        if iteration.finished and iteration.error is None:
            self._settle(row, step, iteration.output, iteration.size)
        elif iteration.finished:
            self._settle(row, step, error=iteration.error)

    def _take_prepared(self, step: Step, calls: StepCalls, results: list[StepResult]) -> None:
        """Note what an activity found out, so that the steps can begin."""
        result_of = {result.run_id: result for result in results}
        for call in calls.calls:
            row, result = self._row_of[call.run_id], result_of.get(call.run_id)
            if row.ended:
                continue
            if result is None:
                row.ended = True
            elif result.status == "cancelled":
                self.cancel([row.run_id])
            elif result.error is not None:
                self._settle(row, step, error=result.error)
            else:
                row.at_work.discard(step.id)
                row.prepared[step.id] = result.output

    def _take_result(self, step: Step, result: StepResult, called_attempt: int) -> None:
        """Settle a row by the first result of an attempt."""
        row = self._row_of.get(result.run_id)
        if row is None or row.ended:
            return
        if result.status == "cancelled":
            self.cancel([row.run_id])
        elif result.item is not None:
            self._take_item(row, step, result.item, result)
        elif (attempt := result.attempt or called_attempt) > row.taken.get(step.id, 0):
            row.taken[step.id] = attempt
            if result.retry_after is not None:
                row.backoffs[step.id] = self._now() + timedelta(seconds=result.retry_after)
            else:
                row.settle(
                    step.id, result.status, result.output, result.error, result.size, stored=result.stored
                )

    def _take_item(self, row: RowState, step: Step, item: int, result: StepResult) -> None:
        """Settle an item; the last one settles the step, and so does one that fails unless it may."""
        iteration = row.iterations.get(step.id)
        if iteration is None or not iteration.takes(result):
            return
        if result.retry_after is not None:
            iteration.pause(item, self._now() + timedelta(seconds=result.retry_after))
        elif result.error is None:
            iteration.settle(item, result.output, result.size, stored=result.stored)
        elif step.on_error == "continue":
            error = result.error.model_dump(include={"code", "message"})
            iteration.settle(item, {"error": error}, len(result.error.message) + 100, stored=False)
        else:
            message = f"Item {item}: {result.error.message}"
            iteration.fail(result.error.model_copy(update={"message": message}))
        self._finish_iteration(row, step, iteration)

    def _pause(self, row: RowState, step: DelayStep) -> None:
        """Begin a delay, or go on with it."""
        now = self._now()
        pause = row.pauses.get(step.id)
        if pause is None:
            until: Any = row.prepared.get(step.id)
            try:
                if step.id not in row.prepared and step.config.until is not None:
                    roots = self._plan.reads[step.id]
                    found = self._bounds.evaluate(
                        row, roots, lambda budget: step_evaluation.until_of(step.config, row.scope, budget)
                    )
                    if found is None:
                        self._want(PREPARE_MANY, row, step)
                        return
                    until = found.value
                end = delays.end_of(step.config, until, now)
            except expressions.ExpressionError as problem:
                self._settle(row, step, error=_error(problem))
                return
            pause = row.pauses[step.id] = Pause(since=row.began.get(step.id, now), until=end)
        row.began[step.id] = pause.since
        if pause.until <= now:
            self._settle(row, step, {"until": written(pause.until)})
        else:
            row.at_work.add(step.id)

    def _wait(self, rows: list[RowState]) -> None:
        """Begin the timers of short waits; let rows leave that wait for nothing else than long ones."""
        now = self._now()
        leaving: dict[datetime, list[RowState]] = {}
        ending: dict[tuple[int, datetime], list[tuple[RowState, Wait]]] = {}
        for row in rows:
            waits = list(row.waits())
            if row.rests and (first := min(wait.until for wait in waits)) - now > LONGEST_NAP:
                leaving.setdefault(first, []).append(row)
                continue
            for wait in waits:
                if wait.until - now <= LONGEST_NAP and wait[:2] not in row.timed:
                    row.timed.add(wait[:2])
                    key = (self._plan.position[wait.step_id], wait.until)
                    ending.setdefault(key, []).append((row, wait))
        for (position, until), waiting in sorted(ending.items(), key=lambda entry: entry[0]):
            summary = f"{self._plan.steps[position].id}: {len(waiting)} waiting"
            self._out.timer(until, summary, self._resuming(position, waiting))
        for until, some in sorted(leaving.items(), key=lambda entry: entry[0]):
            self._out.leave(until, some)

    def _resuming(self, position: int, waiting: list[tuple[RowState, Wait]]) -> Callable[[], None]:
        step = self._plan.steps[position]

        def resume() -> None:
            for row, wait in waiting:
                row.timed.discard(wait[:2])
                if not row.ended and row.error is None and wait in row.waits():
                    self._resume(row, step, wait)

        return resume

    def _resume(self, row: RowState, step: Step, wait: Wait) -> None:
        if wait.item is not None:
            row.iterations[step.id].resume(wait.item)
        elif step.id in row.pauses:
            self._settle(row, step, {"until": written(wait.until)})
        else:
            del row.backoffs[step.id]
            row.at_work.discard(step.id)

    def _settle(
        self, row: RowState, step: Step, output: Any = None, size: int = 0, error: StepError | None = None
    ) -> None:
        """Settle a step that was done here; its record goes along with the next activity."""
        status = "completed" if error is None else "failed"
        iteration = row.iterations.get(step.id)
        record = self._out.record(row, step.id, status, None if iteration else output, error)
        row.add_record(record, 0 if iteration else size)
        stored = iteration is not None and iteration.stored
        row.settle(step.id, status, output, error, size, stored=stored and error is None)


def _activity_of(step: Step) -> str:
    return SEND_MANY if step.type == "webhook" else LOOKUP_MANY


def _error(problem: expressions.ExpressionError) -> StepError:
    return StepError(code=problem.code, message=problem.message)
