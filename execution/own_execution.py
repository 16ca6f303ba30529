"""A run in its own workflow: the work of one activity on it, from its rows and back to them.

Nothing stays in memory between two activities, so any worker can execute any of them. The same is written as
under a shift: pure steps with the next call's record or the end, a call before the next one, every wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from temporalio.exceptions import ApplicationError

from engine.calls import Call
from engine.driver import Driver
from engine.run_room import RunRoom
from execution import clock
from execution.run_execution import LONGEST_NAP, CallResult, Perform, attempt
from execution.run_recorder import RunRecorder
from execution.versions import LoadedVersion
from language.progress import ItemWait, Progress, StepProgress, read_progress
from language.records import FailedAttempt, StepRecord
from language.steps import CallingStep
from models.runs.own_runs import OwnRow
from models.runs.run_writes import Change, End, Wait
from outbound.memory import Reservation
from workflows.messages import CallName, Todo

_OF_ROWS = ("collect", "run_child", "remember")
_KINDS = {"send", "look_up", "collect", "run_child", "remember", "emit"}
# The items of a step with more items than this are executed several in one activity; and those of every step,
# if more calls than this begin at one time.
_ITEMS_SEEN = 20
_CALLS_SEEN = 60
# The time that a decision waits for the database; after that the workflow waits, which occupies no slot.
_DATABASE_SECONDS = 5.0
ITEMS = "items"
ITEMS_AT_ONCE = 50
"""The highest number of items of a step that one activity executes."""

Key = tuple[str, int | None, int, str]


@asynccontextmanager
async def database_deadline() -> AsyncGenerator[None]:
    """Wait for the database inside the block, but not for long.

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
    """A run, read from its rows.

    Attributes:
        room: for the values that `driver` keeps.
        perform: executes a call.
        performed: whether an activity has executed a call, whose result cannot be had again.
        unwritten: records that are not written yet.
        rooms: memory to release after the write.
        impatient: whether a wait for the database may be given up soon, because no call was executed.
        known_waits: the waiting items of steps, as this execution has read and written them.
    """

    row: OwnRow
    version: LoadedVersion
    driver: Driver
    room: RunRoom
    writer: RunRecorder
    perform: Perform
    performed: bool = False
    unwritten: list[StepRecord] = field(default_factory=list[StepRecord])
    rooms: list[Reservation] = field(default_factory=list[Reservation])
    impatient: bool = False
    known_waits: dict[str, dict[int, ItemWait]] = field(default_factory=dict[str, dict[int, ItemWait]])

    async def advance(self, under_way: Sequence[CallName]) -> Todo:
        """Advance the run without outside calls, and write its state before the next calls begin.

        Args:
            under_way: the calls that are executed elsewhere.

        Raises:
            StaleProgress: another writer has changed the run's progress since it was read.
            UnstorableRecord: its data cannot be stored.
        """
        now, driver = clock.now(), self.driver
        driver.called_elsewhere = frozenset(one.step_id for one in under_way)
        calls = await self._advance(now)
        if driver.ended is not None and under_way:
            # A step has failed the run; the calls under way end first. Nothing that follows them begins.
            self.unwritten = [record for record in self.unwritten if record.status != "cancelled"]
            if self.unwritten and not await self.write():
                return Todo([], over="elsewhere")
            return Todo([])
        begun = [call for call in calls if not _is_under_way(call, under_way)]
        then = self._then(now, leaves=not driver.at_work)
        # What ends beside a call is written: else each later decision would make it anew, in another order.
        alone = not under_way and len(begun) < 2
        if then is None and not (self.unwritten and (not alone or self._must_be_written(begun))):
            return self._todo(begun, under_way, now)
        if not await self.write(then):
            return Todo([], over="elsewhere")
        if driver.ended is not None:
            return Todo([], steps=driver.settled, over=driver.ended.status)
        return self._todo(begun, under_way, now)

    async def _advance(self, now: datetime) -> list[Call]:
        """Do all local work; return the calls that reach outside.

        The results of local calls are lost after this activity: the next one computes them again from the
        rows.
        """
        driver, outside, looked = self.driver, list[Call](), False
        while driver.ended is None:
            calls = driver.advance(now)
            self.unwritten += driver.take_records()
            here = [call for call in calls if _is_local(call)]
            outside += [call for call in calls if not _is_local(call)]
            if self._reads_unwritten(here):
                await self.write()
            found = await asyncio.gather(*(self._attempt_here(call, now) for call in here))
            for call, done in zip(here, found, strict=True):
                driver.take(call, done.outcome, now)
            # If the items of a step come from rows, their waits are known only after one look.
            due = driver.wakes_at is not None and driver.wakes_at <= now
            if not here and (looked or not due):
                break
            looked = not here
        self.unwritten += driver.take_records()
        return outside

    async def _attempt_here(self, call: Call, now: datetime) -> CallResult:
        may_give_up = self.impatient and call.kind in _OF_ROWS
        async with database_deadline() if may_give_up else nullcontext():
            return await attempt(self.perform, call, now)

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
        """Write the finished work and the wait or the end; return False if the run is no longer ours."""
        run, records = self.row.run, self._records
        fence = self.row.progress_no if isinstance(then, Wait) else None
        change = Change(run.claim_id, run.run_id, records, then, run.parent_run_id, fence)
        async with database_deadline() if self.impatient else nullcontext():
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
        """End the run as cancelled in memory; return the records of its finished and interrupted steps."""
        self.driver.cancel(clock.now())
        self.unwritten += self.driver.take_records()
        return self._records

    async def find(self, name: CallName, *, alone: bool) -> list[Call]:
        """Return the calls that the workflow asks for; none if they are done, or must not be executed now.

        Args:
            name: the name of the calls.
            alone: whether no other call is under way.
        """
        if not alone:
            self.driver.called_elsewhere = frozenset(self.version.plan.position) - {name.step_id}
        calls = await self._advance(clock.now())
        if name.kind == ITEMS:
            calls = [call for call in calls if call.step.id == name.step_id]
        else:
            calls = [call for call in calls if key_of(call) == name.key]
        # For a value that was in memory when the workflow decided, there may be no room now.
        if self._reads_unwritten(calls) and not await self.write():
            return []
        return calls

    def pauses_briefly(self, step_id: str) -> bool:
        """Return whether an item of a step pauses for so short a time that its activity waits for it."""
        soon = clock.now() + LONGEST_NAP
        return any(wait.step_id == step_id and wait.until <= soon for wait in self.driver.waits)

    def progress_of(self, call: Call) -> StepProgress | None:
        """Return the progress of a call's step; None if the step is settled."""
        return self.driver.progress().steps.get(call.step.id)

    def wait_until(self, moment: datetime) -> Todo:
        """Return the work of a run that only waits: the end of the wait, and what it waits for."""
        now = clock.now()
        self.driver.advance(now)
        steps = read_progress(self.row.run.progress).steps
        waits = [
            _wait_of(step_id, step.until, step.attempt_log)
            for step_id, step in steps.items()
            if step.until is not None
        ]
        seconds = max(0.0, (moment - now).total_seconds())
        return Todo([], seconds, ", ".join(waits), self.driver.settled)

    def _todo(self, begun: Sequence[Call], under_way: Sequence[CallName], now: datetime) -> Todo:
        wakes_at, live = self.driver.wakes_at, self.driver.live_steps()
        waits = [_wait_of(one.step_id, one.until, one.attempt_log) for one in live if one.until is not None]
        seconds = None if wakes_at is None else max(0.0, (wakes_at - now).total_seconds())
        return Todo(names_of(begun, under_way), seconds, ", ".join(waits), self.driver.settled)


def merge_progress(progress: Progress, call: Call, mine: StepProgress, *, is_done: bool) -> Progress:
    """Return the run's progress with the result of one call merged in, beside those of other calls.

    Args:
        progress: the stored progress.
        call: the call.
        mine: the progress of its step, in the execution that made the call.
        is_done: whether the call's record is stored; until then the progress counts its attempts.
    """
    there = progress.steps.get(call.step.id)
    if there is not None and call.item is not None:
        waits = {**there.items}
        if is_done:
            waits.pop(call.item, None)
        if call.item in mine.items:
            waits = _later_waits(there.items, {**waits, call.item: mine.items[call.item]})
        # When the step was written, perhaps another item paused, and nothing else was at work.
        mine = there.model_copy(update={"items": waits, "at_work": there.at_work or not is_done})
    elif there is not None and isinstance(call.step, CallingStep) and there.attempts >= call.attempt:
        # A copy of this activity has recorded the attempt, and may be on with the next.
        return progress
    return _with_step(progress, call.step.id, mine)


def merge_step(
    progress: Progress, step_id: str, known: Mapping[int, ItemWait], mine: StepProgress
) -> Progress:
    """Return the run's progress with that of a step over items replaced.

    Args:
        progress: the stored progress.
        step_id: the step.
        known: its waiting items, as this execution has read and written them.
        mine: its progress now.
    """
    there = progress.steps.get(step_id)
    if there is not None:
        # What a copy of this activity has added: both count the attempts at an item.
        added = {item: wait for item, wait in there.items.items() if known.get(item) != wait}
        mine = mine.model_copy(update={"items": {**added, **_later_waits(added, mine.items)}})
    return _with_step(progress, step_id, mine)


def _later_waits(there: Mapping[int, ItemWait], mine: Mapping[int, ItemWait]) -> dict[int, ItemWait]:
    """Return the waits of `mine`; for an item of which `there` knows a later attempt, that one's."""
    return {
        item: there[item] if item in there and there[item].attempts > wait.attempts else wait
        for item, wait in mine.items()
    }


def _with_step(progress: Progress, step_id: str, mine: StepProgress) -> Progress:
    return progress.model_copy(update={"steps": {**progress.steps, step_id: mine}})


def key_of(call: Call) -> Key:
    """Return the key of a call within its run."""
    return call.step.id, call.item, call.attempt, call.kind


def _wait_of(step_id: str, until: datetime, failed: Sequence[FailedAttempt]) -> str:
    what = "until"
    if failed and failed[-1].next_attempt_at == until:
        what = f"attempt {failed[-1].attempt + 1} at"
    return f"{step_id}: {what} {until:%Y-%m-%d %H:%M:%S}Z"


def _is_local(call: Call) -> bool:
    """Return whether a call reaches nothing outside, so that it can be repeated from the record."""
    return call.kind == "run_child" or (
        call.kind not in ("send", "look_up", "emit") and call.items_total <= _ITEMS_SEEN
    )


def _is_under_way(call: Call, under_way: Sequence[CallName]) -> bool:
    return any(
        one.step_id == call.step.id and (one.kind == ITEMS or one.item == call.item) for one in under_way
    )


def names_of(calls: Sequence[Call], under_way: Sequence[CallName]) -> list[CallName]:
    """Return the names of calls for the workflow; many items of a step get one name.

    Args:
        calls: the calls.
        under_way: the calls that are executed elsewhere; a name of many items includes none of these.
    """
    names: dict[Key, CallName] = {}
    apart = {one.step_id for one in under_way}
    for call in calls:
        total = call.items_total
        kind = call.step.type if call.kind in _KINDS else call.kind
        many = total > _ITEMS_SEEN or (len(calls) > _CALLS_SEEN and call.step.id not in apart)
        if call.item is not None and many:
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
    """Return the run's id in the id of its workflow; None if it is no such id."""
    head, _, tail = workflow_id.partition("/")
    try:
        return UUID(tail) if head == "run" else None
    except ValueError:
        return None
