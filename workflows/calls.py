"""What the interpreter asks for: a step over many rows, in parts that fit into a message; timers; ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from engine.plan import Plan
from language.definition import CallingStep, ConditionStep, IteratingStep, Step
from language.expressions import Budget
from language.records import StepError, StepRecord
from workflows.dataflow import Reading, RowState
from workflows.messages import (
    PART_BYTES,
    PREPARE_MANY,
    Batch,
    Ending,
    ItemCall,
    ParkedRun,
    RunEndings,
    StepCall,
    StepCalls,
)

T = TypeVar("T")
MAX_ITEMS_A_PART = 100
# What a message says of a call or an item beside the data: ids, times, the names of the fields.
_CALL_BYTES, _ITEM_BYTES = 400, 60
ROW_BYTES = PART_BYTES // 2
# The server ends a workflow that asks for more than 4 MiB in one task, and none may have more than 2,000
# activities under way.
TASK_BYTES = 1024 * 1024
MOST_CALLS = 1000
BREATH = timedelta(milliseconds=1)


class Call(NamedTuple):
    """Do a step over rows, by this activity."""

    activity: str
    calls: StepCalls


class Timer(NamedTuple):
    """At this moment do that; nothing is lost when a new history begins the timer again."""

    until: datetime
    summary: str
    then: Callable[[], None]


class Leave(NamedTuple):
    """Let rows wait outside until then."""

    wake_at: datetime
    runs: list[ParkedRun]
    records: list[StepRecord]


class End(NamedTuple):
    """Store what the workflow did by itself, and how runs have ended."""

    endings: RunEndings


Command = Call | Timer | Leave | End


class Work(NamedTuple):
    """A row that is ready for a step; `items`: the ones to do, if the step iterates."""

    row: RowState
    items: list[ItemCall]


def call_of(plan: Plan, step: Step, work: Work, now: datetime, *, prepares: bool = False) -> StepCall:
    """One row's part of a message; notes that the step is under way. `prepares`: not an attempt yet."""
    row = work.row
    evaluates_items, reading = _reading(plan, step, row)
    row.at_work.add(step.id)
    if not prepares and not work.items:
        row.attempts[step.id] = row.attempts.get(step.id, 0) + 1
    began = row.began.setdefault(step.id, now)
    timeout = step.timeout if isinstance(step, CallingStep) else None
    return StepCall(
        run_id=row.run_id,
        scope=reading.scope,
        stored=reading.stored,
        attempt=row.attempts.get(step.id, 1),
        started_at=began,
        items=work.items,
        evaluates_items=evaluates_items and isinstance(step, IteratingStep) and step.for_each is not None,
        deadline=began + timedelta(seconds=timeout) if timeout is not None else None,
    )


def _reading(plan: Plan, step: Step, row: RowState) -> tuple[bool, Reading]:
    """Whether the activity is to find the items itself, if there are any; what it gets of the row."""
    iteration = row.iterations.get(step.id)
    evaluates_items = iteration is None or iteration.evaluated_there
    roots = (*plan.reads[step.id], *plan.iterates[step.id]) if evaluates_items else plan.reads[step.id]
    return evaluates_items, row.read(dict.fromkeys(roots), ROW_BYTES)


def weight(plan: Plan, step: Step, work: Work) -> int:
    """About how many bytes a row's part of a message has."""
    items = sum(_ITEM_BYTES + Budget().measure(one.value) for one in work.items)
    _, reading = _reading(plan, step, work.row)
    records = work.row.weigh_records(reading.stored)
    return _CALL_BYTES + reading.size + records + items


def in_parts(things: Iterable[T], weigh: Callable[[T], tuple[int, int]]) -> Iterator[tuple[list[T], int]]:
    """Split into lists that fit into a message each, and their bytes.

    `weigh` gives the bytes and the items of a thing.
    """
    part: list[T] = []
    size = items = 0
    for thing in things:
        its_size, its_items = weigh(thing)
        if part and (size + its_size > PART_BYTES or items + its_items > MAX_ITEMS_A_PART):
            yield part, size
            part, size, items = [], 0, 0
        part.append(thing)
        size, items = size + its_size, items + its_items
    if part:
        yield part, size


class Outbox:
    """Collects what the interpreter asks for, in parts that fit into a message; lets it out by and by."""

    def __init__(self, batch: Batch, plan: Plan, now: Callable[[], datetime]) -> None:
        self._batch = batch
        self._plan = plan
        self._now = now
        self._commands: deque[tuple[Command, int]] = deque()
        self._calls = 0

    @property
    def empty(self) -> bool:
        """Whether all has been let out."""
        return not self._commands

    def take(self) -> list[Command]:
        """What is to be carried out now, in this order; the rest is for the next task, or when calls end."""
        taken: list[Command] = []
        left = TASK_BYTES
        while self._commands and self._calls < MOST_CALLS:
            command, size = self._commands[0]
            if size > left and taken:
                taken.append(Timer(self._now() + BREATH, "much to send", lambda: None))
                break
            self._commands.popleft()
            taken.append(command)
            left -= size
            self._calls += isinstance(command, Call)
        return taken

    def ended(self) -> None:
        """Note that a call has ended."""
        self._calls -= 1

    def _put(self, command: Command, size: int = 0) -> None:
        self._commands.append((command, size))

    def timer(self, until: datetime, summary: str, then: Callable[[], None]) -> None:
        """Do that at this moment."""
        self._put(Timer(until, summary, then))

    def call(self, activity: str, position: int, work: list[Work], room: int) -> None:
        """Ask for an activity over the rows that are ready for a step; for several if there is much data.

        `room`: how many bytes of outputs the batch can still keep.
        """
        step, now = self._plan.steps[position], self._now()
        prepares = activity == PREPARE_MANY
        for part, size in in_parts(work, lambda one: (weight(self._plan, step, one), len(one.items))):
            calls = [call_of(self._plan, step, one, now, prepares=prepares) for one in part]
            both = zip(part, calls, strict=True)
            message = StepCalls(
                batch_id=self._batch.batch_id,
                account_id=self._batch.account_id,
                step=step,
                position=position,
                calls=calls,
                records=[record for one, call in both for record in one.row.send_records(call.stored)],
                keep_output=prepares or isinstance(step, ConditionStep) or self._plan.keeps(step.id),
                room=max(0, min(PART_BYTES, room)),
            )
            self._put(Call(activity, message), size)

    def record(
        self,
        row: RowState,
        step_id: str,
        status: Any,
        output: Any = None,
        error: StepError | None = None,
    ) -> StepRecord:
        """What a step did that the workflow has done by itself, or ended."""
        return StepRecord(
            run_id=row.run_id,
            step_id=step_id,
            position=self._plan.position[step_id],
            status=status,
            output=output,
            error=error,
            attempts=row.attempts.get(step_id, 1),
            started_at=row.began.get(step_id, self._now()),
            completed_at=self._now(),
            gathered=step_id in row.iterations,
        )

    def leave(self, wake_at: datetime, rows: list[RowState]) -> None:
        """Let rows that wake together leave as one batch."""
        for row in rows:
            row.ended = True
        for part, size in _parts(rows):
            runs = [ParkedRun(run_id=row.run_id, progress=row.progress()) for row in part]
            self._put(Leave(wake_at, runs, _sent_records(part)), size)

    def store(self, rows: list[RowState]) -> None:
        """Have stored what the workflow did by itself."""
        for part, size in _parts([row for row in rows if row.record_bytes]):
            self._end([], part, size)

    def end(self, rows: list[RowState], *, cancelled: bool = False) -> None:
        """Write that runs have ended."""
        for row in rows:
            row.ended = True
        for part, size in _parts(rows):
            endings = [
                Ending(
                    run_id=row.run_id,
                    status="cancelled" if cancelled else "failed" if row.error else "completed",
                    error=None if cancelled else row.error,
                )
                for row in part
            ]
            self._end(endings, part, size)

    def _end(self, endings: list[Ending], rows: list[RowState], size: int) -> None:
        message = RunEndings(batch_id=self._batch.batch_id, endings=endings, records=_sent_records(rows))
        self._put(End(message), size)


def _parts(rows: list[RowState]) -> Iterator[tuple[list[RowState], int]]:
    """The rows whose records and progress fit into one message together, and their bytes."""
    return in_parts(rows, lambda row: (_CALL_BYTES + row.record_bytes + row.progress_bytes, 0))


def _sent_records(rows: list[RowState]) -> list[StepRecord]:
    return [record for row in rows for record in row.send_records()]
