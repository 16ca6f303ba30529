"""What the interpreter asks for: a step over many rows, in parts that fit into a message; timers; ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from workflows.dataflow import Plan, RowState
from workflows.definition import CallingStep, IteratingStep, Step
from workflows.messages import (
    PART_BYTES,
    ItemCall,
    ParkedRun,
    RunEndings,
    StepCall,
    StepCalls,
    StepRecord,
)

T = TypeVar("T")
MAX_ITEMS_A_PART = 100
ROW_BYTES = PART_BYTES // 2


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
    """Let rows wait outside for a long delay."""

    wake_at: datetime
    runs: list[ParkedRun]
    records: list[StepRecord]


class End(NamedTuple):
    """Write how runs have ended."""

    endings: RunEndings


Command = Call | Timer | Leave | End


class Work(NamedTuple):
    """A row that is ready for a step; `items`: the ones to do, if the step iterates."""

    row: RowState
    items: list[ItemCall]


def call_of(plan: Plan, step: Step, work: Work, now: datetime, *, prepares: bool = False) -> StepCall:
    """One row's part of a message; notes that the step is under way. `prepares`: not an attempt yet."""
    row = work.row
    iteration = row.iterations.get(step.id)
    evaluates_items = iteration is None or iteration.evaluated_there
    roots = (*plan.reads[step.id], *plan.iterates[step.id]) if evaluates_items else plan.reads[step.id]
    reading = row.read(dict.fromkeys(roots), ROW_BYTES)
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


def weight(plan: Plan, step: Step, work: Work) -> int:
    """About how many bytes a row's part of a message has."""
    iteration = work.row.iterations.get(step.id)
    items = len(work.items) * iteration.item_bytes if iteration is not None else 0
    return work.row.read(plan.reads[step.id], ROW_BYTES).size + work.row.record_bytes + items


def in_parts(things: Iterable[T], weigh: Callable[[T], tuple[int, int]]) -> Iterator[list[T]]:
    """Split into lists that fit into a message each; `weigh` gives the bytes and the items of a thing."""
    part: list[T] = []
    size = items = 0
    for thing in things:
        its_size, its_items = weigh(thing)
        if part and (size + its_size > PART_BYTES or items + its_items > MAX_ITEMS_A_PART):
            yield part
            part, size, items = [], 0, 0
        part.append(thing)
        size, items = size + its_size, items + its_items
    if part:
        yield part
