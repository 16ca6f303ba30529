"""The execution of one run: executes its calls, writes their results, and releases it when it only waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from engine.calls import AttemptResult, Call, failed_attempt, unevaluated_attempt
from engine.driver import Driver
from engine.under_way import StepWait
from execution import clock
from execution.shift import HeldShift
from language.expressions import ExpressionError
from language.records import LiveStep, StepRecord
from models.runs.run_writes import Change, End, Wait
from outbound.memory import Reservation

LONGEST_NAP = timedelta(seconds=2)
"""A run that only waits, for longer than this, leaves its carrier."""
SHOWN_SECONDS = 0.5
"""The progress of a call under way for longer than this is written."""
ExecutionResult = Literal["ended", "waits", "lost"]
"""The end of an execution: the run has ended, waits for later, or has another carrier."""


class Clock:
    """The clock of the installation."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return clock.now()

    async def sleep_until(self, moment: datetime) -> None:
        """Wait until this moment."""
        await asyncio.sleep(max(0.0, (moment - self.now()).total_seconds()))


class CallResult(NamedTuple):
    """The outcome of a call, and the memory that it takes until it is written."""

    outcome: AttemptResult
    room: Reservation | None = None


Perform = Callable[[Call], Awaitable[CallResult]]
"""Executes a call, and loads the stored values of its scope."""
Write = Callable[[Change], Awaitable[bool]]
"""Writes a change; returns False if the run no longer belongs to this carrier.

It retries until it is sure.
"""


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The claim of a run, with what a write under it says beside the run's own state.

    Attributes:
        id: proves that a write comes from the run's carrier.
        handler: the workflow that handles its failure.
        parent_run_id: the run whose step this run is.
        waited_version: the version of its workflow, if a client waits for its answer.
    """

    id: UUID
    handler: UUID | None = None
    parent_run_id: UUID | None = None
    waited_version: int | None = None


class _CallAtWork(NamedTuple):
    """A call under way; `began_at` by the clock of the loop."""

    call: Call
    began_at: float


class Execution:
    """The execution of one run by its carrier."""

    def __init__(
        self,
        held: HeldShift,
        claim: RunClaim,
        driver: Driver,
        perform: Perform,
        write: Write,
        clock: Clock | None = None,
    ) -> None:
        """Create the execution.

        Args:
            held: the shift that carries the run.
            claim: the run's claim.
            driver: the driver, with the recorded state of the run.
            perform: executes its calls.
            write: writes its changes.
            clock: the clock for its waits.
        """
        self._held = held
        self._claim = claim
        self._driver = driver
        self._perform = perform
        self._write = write
        self._clock = clock or Clock()
        self._happened = asyncio.Event()
        self._must_recheck = False
        self._at_work: dict[asyncio.Task[CallResult], _CallAtWork] = {}
        self._ended: list[asyncio.Task[CallResult]] = []
        self._rooms: list[Reservation] = []
        self._unwritten: list[StepRecord] = []
        self._written_waits: frozenset[StepWait] = frozenset()
        self._shown: list[LiveStep] = []
        # Whether the steps under way are those that are shown, as far as is known; else when to look again,
        # and whether it is time.
        self._is_shown = True
        self._look: asyncio.TimerHandle | None = None
        self._look_is_due = False
        # Whether the record shows that the run only waits.
        self._record_shows_waiting = False

    async def run(self) -> ExecutionResult:
        """Advance the run until it ends, waits for long, or is lost.

        Raises:
            Exception: from `write`, or a fault of the engine. The calls under way are cancelled then.
        """
        try:
            while True:
                now = self._clock.now()
                calls = self._driver.advance(now)
                for call in calls:
                    self._driver.start_attempt(call, now)
                self._unwritten += self._driver.take_records()
                change = self._change(calls)
                if change is not None and not await self._write_change(change):
                    return "lost"
                if self._driver.ended is not None:
                    return "ended"
                if change is not None and isinstance(change.then, Wait) and change.then.leaves:
                    return "waits"
                if calls and not await self._held.wait_until_calls_can_start():
                    return "lost"
                self._begin_calls(calls)
                if self._must_be_shown() and not await self._write_change(self._change_to(self._progress())):
                    return "lost"
                await self._something_happens()
        finally:
            if self._look is not None:
                self._look.cancel()
            for task in self._at_work:
                task.cancel()
            await asyncio.gather(*self._at_work, return_exceptions=True)
            self._release_rooms()

    def recheck_answers(self) -> None:
        """Check again whether answers have come that the run waits for."""
        self._must_recheck = True
        self._happened.set()

    def give_up(self) -> list[StepRecord]:
        """End the run as cancelled in memory; return the records of its finished and interrupted steps."""
        self._driver.cancel(self._clock.now())
        # Kept, because a caller that is interrupted while writing them asks for them again.
        self._unwritten += self._driver.take_records()
        return list(self._unwritten)

    def _change(self, calls: list[Call]) -> Change | None:
        """Return the change that must be written before anything else begins; None if there is none.

        Finished calls are written before the next one begins, and waits before waiting. Results that can be
        computed again without a call are written together with the next of these.
        """
        driver = self._driver
        then: Wait | End | None = None
        if driver.ended is not None:
            failed = driver.ended.status == "failed"
            then = End(
                driver.ended.status,
                driver.ended.error,
                driver.ended.output_of,
                handler=self._claim.handler if failed else None,
                has_children=failed and driver.has_children,
                waited_version=self._claim.waited_version,
            )
        elif (wake_at := driver.wakes_at) is not None:
            leaves = not driver.at_work and wake_at - self._clock.now() > LONGEST_NAP
            if leaves or not driver.waits <= self._written_waits:
                then = self._progress(leaves=leaves)
        if then is None and calls and self._record_shows_waiting:
            # This write also detects that the run was cancelled while it waited.
            then = self._progress()
        if then is None and not (calls and self._must_be_written(calls)):
            return None
        return self._change_to(then)

    def _progress(self, *, leaves: bool = False) -> Wait:
        only_waits = None if self._driver.at_work else self._driver.wakes_at
        return Wait(only_waits, self._driver.progress().model_dump_json(), leaves)

    def _change_to(self, then: Wait | End | None) -> Change:
        claim = self._claim
        return Change(claim.id, self._driver.run_id, self._unwritten, then, claim.parent_run_id)

    def _must_be_written(self, calls: Iterable[Call]) -> bool:
        read = {name for call in calls for name in call.stored}
        return any(self._driver.makes_call(record) or record.step_id in read for record in self._unwritten)

    async def _write_change(self, change: Change) -> bool:
        waits, live = self._written_waits, self._shown
        if isinstance(change.then, Wait):
            # Read before the write: there may be more waits and calls when it returns.
            waits, live = self._driver.waits, self._driver.live_steps()
        written = await self._write(change)
        if written:
            self._unwritten = []
        self._release_rooms()
        if isinstance(change.then, Wait):
            self._record_shows_waiting = change.then.wake_at is not None
            self._written_waits, self._shown, self._is_shown = waits, live, not self._ended
        return written

    def _begin_calls(self, calls: list[Call]) -> None:
        if not calls:
            return
        now, began_at = self._clock.now(), asyncio.get_running_loop().time()
        for call in calls:
            task = asyncio.create_task(attempt(self._perform, call, now))
            task.add_done_callback(self._note_end)
            self._at_work[task] = _CallAtWork(call, began_at)
        self._is_shown = False

    def _note_end(self, task: asyncio.Task[CallResult]) -> None:
        self._ended.append(task)
        self._happened.set()

    def _note_alarm(self, _alarm: asyncio.Task[None]) -> None:
        self._happened.set()

    async def _something_happens(self) -> None:
        """Wait for the end of a call, or of a wait, and take the outcomes of ended calls."""
        wake_at = self._driver.wakes_at
        assert self._at_work or wake_at, "a run that has not ended has something at work, or waits"
        alarm: asyncio.Task[None] | None = None
        if wake_at is not None:
            alarm = asyncio.create_task(self._clock.sleep_until(wake_at))
            alarm.add_done_callback(self._note_alarm)
        if not self._is_shown and self._look is None:
            self._look = asyncio.get_running_loop().call_later(SHOWN_SECONDS, self._note_look)
        try:
            await self._happened.wait()
        finally:
            if alarm is not None:
                alarm.remove_done_callback(self._note_alarm)
                alarm.cancel()
        self._happened.clear()
        if self._must_recheck:
            self._must_recheck = False
            self._driver.recheck_answers()
        ended, self._ended = self._ended, []
        for task in ended:
            call, (outcome, room) = self._at_work.pop(task).call, task.result()
            if room is not None:
                self._rooms.append(room)
            self._driver.take(call, outcome, self._clock.now())
            self._is_shown = False

    def _must_be_shown(self) -> bool:
        """Return whether a call has been under way for so long that the progress must be written now.

        Otherwise, look again when it has. To look at each end of a call would cost more than the call. Ended
        calls are written then in any case: the one under way may wait for the memory that they hold.
        """
        if not self._look_is_due:
            return False
        self._look_is_due = False
        if not self._at_work or (not self._rooms and self._driver.live_steps() == self._shown):
            self._is_shown = True
            return False
        loop = asyncio.get_running_loop()
        due = min(call.began_at for call in self._at_work.values()) + SHOWN_SECONDS
        if loop.time() < due:
            self._look = loop.call_at(due, self._note_look)
            return False
        return True

    def _note_look(self) -> None:
        self._look, self._look_is_due = None, True
        self._happened.set()

    def _release_rooms(self) -> None:
        for room in self._rooms:
            room.release()
        self._rooms.clear()


async def attempt(perform: Perform, call: Call, now: datetime) -> CallResult:
    """Make one attempt, within the remaining time of its step."""
    limit: asyncio.Timeout | None = None
    try:
        if call.deadline is None:
            return await perform(call)
        async with asyncio.timeout((call.deadline - now).total_seconds()) as limit:
            return await perform(call)
    except ExpressionError as error:
        return CallResult(unevaluated_attempt(error))
    except TimeoutError:
        if limit is None or not limit.expired():
            raise
        return CallResult(failed_attempt("timeout", "The step was not done within its timeout."))
