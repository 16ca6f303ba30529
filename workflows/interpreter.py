"""What a batch does next: the rows of a definition, the results that come in, the commands that go out.

Pure: it knows neither Temporal nor a clock, so the workflow can carry out the commands, and a test can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from workflows import delays, expressions, pure
from workflows.calls import Call, Command, Outbox, Work
from workflows.dataflow import Plan, RowState, written
from workflows.definition import CallingStep, ConditionStep, Definition, DelayStep, Step, TransformStep
from workflows.iteration import Iteration
from workflows.messages import (
    EVALUATE_MANY,
    INLINE_BYTES,
    LOOKUP_MANY,
    PREPARE_MANY,
    SEND_MANY,
    Batch,
    EarlyResults,
    ItemCall,
    LiveStep,
    Pause,
    Progress,
    StepCalls,
    StepError,
    StepResult,
)

T = TypeVar("T")

# A longer delay leaves the batch: a timer of the server's own holds it, for a year if need be.
LONGEST_NAP = timedelta(minutes=5)
# How many expression nodes are visited before the rest is left to the next workflow task: about a quarter of
# a second, far from the two seconds after which the SDK takes a task for stuck.
_NODES_PER_TASK = 300_000
_BREATH = timedelta(milliseconds=1)
_MUCH_DATA, _BREATHS_BETWEEN_STEPS = "much-data-in-activities", "breaths-between-steps"


class Interpreter:
    """The rows of a batch. Tell it what came in, then ask it to advance."""

    def __init__(
        self, batch: Batch, now: Callable[[], datetime], patched: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Prepare.

        Args:
            batch: with its definition and rows.
            now: the time, the same for as long as one workflow task lasts.
            patched: whether a change of behaviour is in force for this history.
        """
        definition = Definition.model_validate(batch.definition)
        described = {"id": str(batch.automation_id), "name": definition.name}
        self._now = now
        self._patched = patched
        self._plan = plan = Plan(definition)
        self._rows = [RowState(plan, row, described, batch.progress.get(row.run_id)) for row in batch.rows]
        self._row_of = {row.run_id: row for row in self._rows}
        self._out = Outbox(batch, plan, now, patched)
        self._work: dict[tuple[int, str, int], list[Work]] = {}
        self._naps: dict[tuple[int, datetime], list[RowState]] = {}
        self._nodes = 0

    def advance(self) -> list[Command]:
        """Do all that can be done now: pure steps at once, the others as one activity a step."""
        self._work, self._naps, self._nodes = {}, {}, 0
        for row in self._rows:
            if self._nodes > _NODES_PER_TASK or not (row.ended or self._begin_steps(row)):
                self._out.timer(self._now() + _BREATH, "much to evaluate", lambda: None)
                break
        for (position, activity, _), work in sorted(self._work.items(), key=lambda entry: entry[0]):
            self._out.call(activity, position, work)
        for (position, end), rows in sorted(self._naps.items(), key=lambda entry: entry[0]):
            summary = f"{self._plan.steps[position].id}: {len(rows)} rows"
            self._out.timer(end, summary, self._waking(position, end, rows))
        self._out.leave([row for row in self._rows if not row.ended and row.only_pauses])
        self._out.end([row for row in self._rows if not row.ended and row.finished])
        return self.commands()

    def commands(self) -> list[Command]:
        """What the results that came in ask for by themselves."""
        return self._out.take()

    def progress(self) -> dict[UUID, Progress]:
        """What a new history needs to go on with the rows that are left."""
        return {row.run_id: row.progress() for row in self._rows if not row.ended}

    def live_steps(self, run_id: UUID) -> list[LiveStep]:
        """The steps of a run that are under way."""
        row = self._row_of.get(run_id)
        if row is None or row.ended:
            return []
        return [row.live(step.id) for step in self._plan.steps if step.id in row.at_work]

    def take_results(self, call: Call, results: list[StepResult]) -> None:
        """Settle each row by its result; a row without one is no longer ours."""
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
        step = call.calls.step
        for record in call.calls.records:
            self._row_of[record.run_id].add_record(record)
        for one in call.calls.calls:
            row = self._row_of[one.run_id]
            if not row.ended and step.id in row.at_work and one.attempt > row.taken.get(step.id, 0):
                self._settle(row, step, error=error)

    def cancel(self, run_ids: Iterable[UUID]) -> None:
        """End rows as cancelled, and so the steps that are under way in them."""
        rows = [self._row_of[run_id] for run_id in run_ids if run_id in self._row_of]
        rows = [row for row in rows if not row.ended]
        for row in rows:
            # An activity under way may come too late to store what was sent along.
            row.recall_records()
            for step_id in sorted(row.at_work):
                row.add_record(self._out.record(row, step_id, "cancelled"))
        self._out.end(rows, cancelled=True)

    def take_back(self, run_ids: list[UUID]) -> None:
        """Rows that could not leave, since somebody cancels them."""
        for run_id in run_ids:
            self._row_of[run_id].ended = False
        self.cancel(run_ids)

    def _begin_steps(self, row: RowState) -> bool:
        """Begin what is ready. False: there is more, for the next workflow task."""
        for step in row.ready():
            if self._nodes > _NODES_PER_TASK and self._patched(_BREATHS_BETWEEN_STEPS):
                return False
            if step.id in row.backoffs:
                self._back_off(row, step, row.backoffs[step.id])
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
        if row.read((*self._plan.reads[step.id], *self._plan.iterates[step.id])).stored:
            return False
        if row.full and self._patched(_MUCH_DATA):
            return False
        found = self._evaluated(row, step, lambda budget: pure.evaluate(step, row.scope, budget))
        if found is None:
            return True
        value, size = found
        if size > INLINE_BYTES and self._patched(_MUCH_DATA):
            return False
        self._settle(row, step, value, size)
        return True

    def _evaluated(
        self, row: RowState, step: Step, evaluate: Callable[[expressions.Budget], T]
    ) -> tuple[T, int] | None:
        """A value and its size in bytes; None if it cannot be had, which fails the step."""
        # Of its own for each row and step: what a row gets never depends on its batch mates.
        budget = expressions.Budget()
        nodes, room = budget.nodes_left, budget.output_left
        try:
            value = evaluate(budget)
        except expressions.ExpressionError as problem:
            self._settle(row, step, error=_error(problem))
            return None
        finally:
            self._nodes += nodes - budget.nodes_left
        return value, room - budget.output_left

    def _begin_iteration(self, row: RowState, step: CallingStep) -> None:
        """Find out over which items a step goes; an activity must do that if they are stored."""
        items: list[Any] | int | None = row.prepared.get(step.id)
        item_bytes = 0
        if items is None:
            if row.read(self._plan.iterates[step.id]).stored:
                self._want(PREPARE_MANY, row, step)
                return
            found = self._evaluated(row, step, lambda budget: pure.items_of(step, row.scope, budget))
            if found is None:
                return
            items, size = found
            item_bytes = size // max(1, len(items))
            if size > INLINE_BYTES:
                items = len(items)
        tried = row.items_tried.get(step.id, {})
        done = row.items_done.get(step.id, [])
        row.at_work.add(step.id)
        row.began.setdefault(step.id, self._now())
        row.iterations[step.id] = iteration = Iteration(items, step.max_concurrency, done, tried, item_bytes)
        for item, until in iteration.pausing.items():
            self._resume_item(row, step, item, until)
        self._finish_iteration(row, step, iteration)

    def _finish_iteration(self, row: RowState, step: Step, iteration: Iteration) -> None:
        if iteration.finished:
            self._settle(row, step, iteration.output, iteration.size)

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
                self._back_off(row, step, self._now() + timedelta(seconds=result.retry_after))
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
            until = self._now() + timedelta(seconds=result.retry_after)
            iteration.pause(item, until)
            self._resume_item(row, step, item, until)
        elif result.error is None:
            iteration.settle(item, result.output, result.size, stored=result.stored)
            self._finish_iteration(row, step, iteration)
        elif step.on_error == "continue":
            error = result.error.model_dump(include={"code", "message"})
            iteration.settle(item, {"error": error}, len(result.error.message) + 100, stored=False)
            self._finish_iteration(row, step, iteration)
        else:
            message = f"Item {item}: {result.error.message}"
            self._settle(row, step, error=result.error.model_copy(update={"message": message}))

    def _resume_item(self, row: RowState, step: Step, item: int, until: datetime) -> None:
        def resume() -> None:
            if iteration := row.iterations.get(step.id):
                iteration.resume(item)

        self._out.timer(until, f"{step.id}: item {item} again", resume)

    def _back_off(self, row: RowState, step: Step, until: datetime) -> None:
        """Let a failed step wait for its next attempt."""

        def resume() -> None:
            row.backoffs.pop(step.id, None)
            row.at_work.discard(step.id)

        row.at_work.add(step.id)
        row.backoffs[step.id] = until
        summary = f"{step.id}: before attempt {row.attempts[step.id] + 1}"
        self._out.timer(until, summary, resume)

    def _pause(self, row: RowState, step: DelayStep) -> None:
        """Begin a delay, or go on with it."""
        now = self._now()
        begun = row.pauses.pop(step.id, None)
        since = row.began[step.id] = begun.since if begun else row.began.get(step.id, now)
        until: Any = row.prepared.get(step.id)
        try:
            if begun is None and until is None and step.config.until is not None:
                if row.read(self._plan.reads[step.id]).stored:
                    self._want(PREPARE_MANY, row, step)
                    return
                until = pure.until_of(step.config, row.scope)
            end = begun.until if begun else delays.end_of(step.config, until, now)
        except expressions.ExpressionError as problem:
            self._settle(row, step, error=_error(problem))
            return
        if end <= now:
            self._settle(row, step, {"until": written(end)})
            return
        row.at_work.add(step.id)
        pause = Pause(since=since, until=end)
        if end - now <= LONGEST_NAP:
            row.naps[step.id] = pause
            self._naps.setdefault((self._plan.position[step.id], end), []).append(row)
        else:
            row.pauses[step.id] = pause

    def _waking(self, position: int, end: datetime, rows: list[RowState]) -> Callable[[], None]:
        def wake() -> None:
            for row in rows:
                if not row.ended:
                    self._settle(row, self._plan.steps[position], {"until": written(end)})

        return wake

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
