"""A run in the hands of its own workflow: what one activity does with it, from its rows and back to them.

Nothing is kept in memory between two activities, so any worker does any of them. What is written, and when,
is as under a shift: pure steps with the next call's record or the end, a call before the next, every wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from temporalio.exceptions import ApplicationError

from engine.calls import Call
from engine.driver import Driver
from engine.state import RunInput
from execution import clock
from execution.run_execution import LONGEST_NAP, Perform, Room, attempt
from execution.run_recorder import RunWriter
from execution.versions import LoadedVersion
from language.progress import Progress, StepProgress, read_progress
from language.records import StepRecord
from models.runs.own_runs import OwnRow
from models.runs.run_loading import Recorded
from models.runs.run_work import Of
from models.runs.run_writes import Change, End, Wait
from workflows.messages import CallName, Todo

_KINDS = {"send", "look_up", "collect", "run_child", "remember", "emit"}
# Items of a step over more than this are done many in an activity.
_ITEMS_SEEN = 20
# How long a decision waits for the database: then the workflow waits, which holds no slot of a worker.
_DATABASE_SECONDS = 5.0
ITEMS = "items"
ITEMS_AT_ONCE = 50
"""An activity has so many items of a step done at most."""

Key = tuple[str, int | None, int, str]


@asynccontextmanager
async def impatience() -> AsyncGenerator[None]:
    """Wait for the database within the block, but not for long.

    Raises:
        ApplicationError: it did not answer in time.
    """
    try:
        async with asyncio.timeout(_DATABASE_SECONDS):
            yield
    except TimeoutError as error:
        raise ApplicationError("The database does not answer.", type="database_away") from error


@dataclass
class OwnExecution:
    """One run, read from its rows.

    Attributes:
        perform: makes a call.
        performed: an activity has made a call: the next one cannot have again what that gave.
        unwritten: what it has done that is not written.
        rooms: memory that is given back once it is.
        impatient: nothing is lost if it is not written now: no call was made.
    """

    row: OwnRow
    version: LoadedVersion
    driver: Driver
    writer: RunWriter
    perform: Perform
    performed: bool = False
    unwritten: list[StepRecord] = field(default_factory=list[StepRecord])
    rooms: list[Room] = field(default_factory=list[Room])
    impatient: bool = False

    @property
    def of(self) -> Of:
        """Whose it is, and of what."""
        return self.row.of

    async def go_on(self, under_way: Sequence[CallName]) -> Todo:
        """Do all that can be done without a call, and write what must be before the next calls begin.

        Args:
            under_way: the calls that are being made elsewhere.

        Raises:
            Stale: somebody else has changed the run's progress since it was read.
            Refused: what it gave cannot be stored.
        """
        now, driver = clock.now(), self.driver
        calls = await self._advance(now)
        if driver.ended is not None and under_way:
            # A step has failed the run; the others find their end first.
            return Todo([])
        begun = [call for call in calls if not _is_under_way(call, under_way)]
        then = self._then(now, leaves=not driver.at_work)
        alone = len(begun) + len(under_way) < 2
        if then is None and not (self.unwritten and (not alone or self._must_be_written(begun))):
            return self._todo(begun, now)
        if not await self.write(then):
            return Todo([], over="elsewhere")
        if driver.ended is not None:
            return Todo([], steps=driver.settled, over=driver.ended.status)
        return self._todo(begun, now)

    async def _advance(self, now: datetime) -> list[Call]:
        """Do all that reaches nothing outside; the calls that do.

        What such a call gives is not kept beyond this activity: the next one has it again from the rows.
        """
        driver, outside, looked = self.driver, list[Call](), False
        while driver.ended is None:
            calls = driver.advance(now)
            self.unwritten += driver.take_records()
            here = [call for call in calls if _is_local(call)]
            outside += [call for call in calls if not _is_local(call)]
            if self._reads_unwritten(here):
                await self.write()
            found = await asyncio.gather(*(attempt(self.perform, call, now) for call in here))
            for call, done in zip(here, found, strict=True):
                driver.take(call, done.outcome, now)
            # Of a step whose items come from rows, those that wait are known once it has been looked at.
            due = driver.wakes_at is not None and driver.wakes_at <= now
            if not here and (looked or not due):
                break
            looked = not here
        self.unwritten += driver.take_records()
        return outside

    def _then(self, now: datetime, *, leaves: bool) -> Wait | End | None:
        driver = self.driver
        if (ended := driver.ended) is not None:
            failed = ended.status == "failed"
            handler = self.version.handler if failed else None
            children = failed and driver.has_children
            return End(ended.status, ended.error, ended.output_of, handler=handler, has_children=children)
        if (wakes_at := driver.wakes_at) is None:
            return None
        leaves = leaves and wakes_at - now > LONGEST_NAP
        progress = driver.progress()
        if not leaves and progress == read_progress(self.row.run.progress):
            return None
        return Wait(wakes_at if not driver.at_work else None, progress.model_dump_json(), leaves)

    def _must_be_written(self, calls: Collection[Call]) -> bool:
        return self.performed or self._reads_unwritten(calls)

    def _reads_unwritten(self, calls: Collection[Call]) -> bool:
        read = {name for call in calls for name in call.stored}
        return any(record.step_id in read for record in self.unwritten)

    async def write(self, then: Wait | End | None = None) -> bool:
        """Write what is done, and whether it waits or has ended; false if it is the workflow's no longer."""
        run, records = self.row.run, self._records
        fence = self.row.progress_no if isinstance(then, Wait) else None
        change = Change(run.claim_id, run.run_id, records, then, run.parent_run_id, fence)
        async with impatience() if self.impatient else nullcontext():
            written = await self.writer.write(change)
        for room in self.rooms:
            room.release()
        self.rooms.clear()
        if written:
            self.unwritten.clear()
        return written

    @property
    def _records(self) -> list[StepRecord]:
        return [one._replace(performed_by="activity") for one in self.unwritten]

    def give_up(self) -> list[StepRecord]:
        """End the run as cancelled, since it is: what it has done, and what it had under way."""
        self.driver.cancel(clock.now())
        self.unwritten += self.driver.take_records()
        return self._records

    async def find(self, name: CallName) -> list[Call]:
        """Find the calls that the workflow asks for; none if they are done, or not to be made now."""
        calls = await self._advance(clock.now())
        if name.kind == ITEMS:
            return [call for call in calls if call.step.id == name.step_id]
        return [call for call in calls if key_of(call) == name.key]

    def naps(self, step_id: str) -> bool:
        """Whether an item of a step pauses for so short a time that one waits for it."""
        soon = clock.now() + LONGEST_NAP
        return any(wait.step_id == step_id and wait.until <= soon for wait in self.driver.waits)

    def pause_of(self, call: Call) -> StepProgress | None:
        """How far a step is of which a call is to be repeated; None if that is over."""
        return self.driver.progress().steps.get(call.step.id)

    def wait_until(self, moment: datetime) -> Todo:
        """Tell what a run waits for that only waits; what it does then is not for now."""
        now = clock.now()
        self.driver.advance(now)
        steps = read_progress(self.row.run.progress).steps
        waits = [_wait_of(step_id, step.until) for step_id, step in steps.items() if step.until is not None]
        seconds = max(0.0, (moment - now).total_seconds())
        return Todo([], seconds, ", ".join(waits), self.driver.settled)

    def _todo(self, begun: Sequence[Call], now: datetime) -> Todo:
        wakes_at, live = self.driver.wakes_at, self.driver.live_steps()
        waits = [_wait_of(one.step_id, one.until) for one in live if one.until is not None]
        seconds = None if wakes_at is None else max(0.0, (wakes_at - now).total_seconds())
        return Todo(names_of(begun), seconds, ", ".join(waits), self.driver.settled)


def execution_of(
    row: OwnRow, version: LoadedVersion, recorded: Recorded, writer: RunWriter, perform: Perform
) -> OwnExecution:
    """Prepare a run as its rows have it."""
    run = row.run
    given = RunInput(
        run_id=run.run_id,
        started_at=run.started_at,
        trigger=run.trigger,
        request=run.request,
        size=run.size,
        stored=run.unloaded,
        done=recorded.done(),
        items=recorded.items_done(),
        progress=read_progress(run.progress),
        queued_at=run.queued_at,
    )
    return OwnExecution(row, version, Driver(version.plan, given, version.workflow), writer, perform)


def merged(progress: Progress, call: Call, mine: StepProgress, *, is_done: bool) -> Progress:
    """Put what has become of one call into the progress of its run, beside what others have put there.

    Args:
        progress: as it is stored.
        call: the call.
        mine: its step, as who made the call has it.
        is_done: the call's record is stored: until then its attempts are counted here.
    """
    there = progress.steps.get(call.step.id)
    if there is not None and call.item is not None:
        items = {**there.items}
        if is_done:
            items.pop(call.item, None)
        if call.item in mine.items:
            items[call.item] = mine.items[call.item]
        mine = there.model_copy(update={"items": items})
    return with_step(progress, call.step.id, mine)


def with_step(progress: Progress, step_id: str, mine: StepProgress) -> Progress:
    """Put a step into the progress of its run."""
    return progress.model_copy(update={"steps": {**progress.steps, step_id: mine}})


def key_of(call: Call) -> Key:
    """Name a call within its run."""
    return call.step.id, call.item, call.attempt, call.kind


def _wait_of(step_id: str, until: datetime) -> str:
    return f"{step_id}: until {until:%Y-%m-%d %H:%M:%S}Z"


def _is_local(call: Call) -> bool:
    """Whether a call reaches nothing outside, so that it can be repeated from the record."""
    return call.kind not in ("send", "look_up", "emit") and call.items_total <= _ITEMS_SEEN


def _is_under_way(call: Call, under_way: Sequence[CallName]) -> bool:
    return any(
        one.step_id == call.step.id and (one.kind == ITEMS or one.item == call.item) for one in under_way
    )


def names_of(calls: Sequence[Call]) -> list[CallName]:
    """Name calls for the workflow; those of a step with many items as one."""
    names: dict[Key, CallName] = {}
    for call in calls:
        total = call.items_total
        kind = call.step.type if call.kind in _KINDS else call.kind
        if call.item is not None and total > _ITEMS_SEEN:
            some = f"items {call.item}-{min(call.item + ITEMS_AT_ONCE, total) - 1} of {total}"
            name = CallName(call.step.id, None, 1, ITEMS, f"{call.step.id}: {kind}, {some}")
        else:
            item = "" if call.item is None else f"[{call.item}]"
            attempt = "" if call.attempt < 2 else f" (attempt {call.attempt})"
            label = f"{call.step.id}{item}: {kind}{attempt}"
            name = CallName(call.step.id, call.item, call.attempt, call.kind, label)
        names.setdefault(name.key, name)
    return list(names.values())


def run_id_of(workflow_id: str) -> UUID | None:
    """Read the run's id in that of its workflow; None if it is no such id."""
    head, _, tail = workflow_id.partition("/")
    try:
        return UUID(tail) if head == "run" else None
    except ValueError:
        return None
