"""Hand claimed runs to Temporal workflows of their own: which, how many, and what if Temporal is away."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from temporalio.client import Client

import logs
from database import AWAY, Database
from execution.shift import Group
from language.definition import Execution as Mode
from models.priorities import ALONE, WAITED
from models.runs import own_runs
from models.runs.run_work import ClaimedRun
from temporal import starts
from temporal.client import TEMPORAL_AWAY, unless_missing
from workflows.messages import LEFT, OwnRun

_log = logs.get(__name__)
_PLACES = 8
# Beyond these, an account that holds none gets one, until the installation has this many runs in places.
_MOST_PLACES = 64
# A freed place rests before `auto` uses it again, so that each place serves three runs a second: more
# workflows would fill two cores and delay everything. The rest of a burst is executed by shifts.
_REST_SECONDS = 1 / 3
# More calls than this in a second, in an installation, are a burst: each would be an activity.
_BURST = 64
# The time that Temporal has to answer; and the time for which runs go by shift after it did not.
_START_SECONDS, _BREAK_SECONDS = 1.0, 5.0
# A run that only a workflow may execute waits longer for a server that is slow.
_LONGEST_START_SECONDS = 8.0
# After Temporal has ended a wait late, runs under `auto` avoid it for this long.
_PREFER_SHIFT_SECONDS = 1.0
# The age at which a place is checked, because no message about its run arrived.
_ASK_SECONDS = 2.0


class _Place(NamedTuple):
    """The place of a run: its account, and since when it is held, by the monotonic clock."""

    account_id: UUID
    since: float


class OwnPlaces:
    """The places of a worker: the number of its runs that have workflows of their own.

    Attributes:
        workers: the number of workers that share the installation's places.
        on_room: called when a place is free again.
        heed_end: returns whether somebody has ended the workflow of a run, and cancels the run then.
    """

    def __init__(self, database: Database, client: Client, default: Mode) -> None:
        self._database = database
        self._client = client
        self._default: Mode = default
        self._places: dict[UUID, _Place] = {}
        self._resting: list[float] = []
        # The number of recent runs' calls, decaying over about a second; and the time of its last update.
        self._lately, self._lately_at = 0.0, time.monotonic()
        self._telling: set[asyncio.Task[None]] = set()
        self._broken_until = self._shift_until = 0.0
        self._patience = _START_SECONDS
        self.workers = 1
        self.on_room: Callable[[], None] = lambda: None
        self.heed_end: Callable[[UUID, UUID], Awaitable[bool]]

    @property
    def room(self) -> int:
        """The number of free places; 0 while Temporal is away."""
        return self._room_of(_PLACES)

    @property
    def newcomers_room(self) -> int:
        """The number of places that are free for accounts that hold none.

        So an account whose long calls hold every other place does not stop the runs of others.
        """
        return self._room_of(_MOST_PLACES)

    def _room_of(self, places: int) -> int:
        if time.monotonic() < self._broken_until:
            return 0
        return max(0, max(1, places // max(1, self.workers)) - len(self._places))

    def at_work(self) -> Counter[UUID]:
        """Count the held places of each account."""
        return Counter(place.account_id for place in self._places.values())

    def _rested_room(self, calls: int) -> int:
        """Return the number of free places that have rested; 0 in a burst, or just after a late wait.

        `calls`: of one run, which is not a burst by itself.
        """
        now = time.monotonic()
        if now < self._shift_until or (self._lately - calls) * max(1, self.workers) >= _BURST:
            return 0
        self._resting = [until for until in self._resting if until > now]
        return max(0, self.room - len(self._resting))

    def prefer_shift(self) -> None:
        """Execute runs under `auto` by shift for a moment, because workflows have not ended waits in time.

        Temporal may be away. Finding that out by a hand-over would delay late runs even more.
        """
        self._shift_until = time.monotonic() + _PREFER_SHIFT_SECONDS

    def reserve(self, account_id: UUID, runs: Iterable[ClaimedRun]) -> None:
        """Reserve places for these runs, which were claimed for them: the next claim counts on fewer."""
        place = _Place(account_id, time.monotonic())
        self._places.update(dict.fromkeys((run.run_id for run in runs), place))

    async def hand_over(
        self, group: Group, runs: list[ClaimedRun], mode: Mode | None, calls: int
    ) -> list[ClaimedRun]:
        """Hand runs to workflows of their own, if they should have one and there is room.

        Args:
            group: the group with which they were claimed.
            runs: its runs.
            mode: the setting of their workflow.
            calls: the number of calls that each of them makes, as far as is known.

        Returns:
            The runs that the shift executes.
        """
        self._count_calls(len(runs), calls)
        mode = mode or self._default
        if any(self._may_be_over(run, mode) for run in runs):
            runs = await self._leave_out_ended(group, runs, mode)
        chosen = self._choose(group.of.account_id, runs, mode, calls)
        if mode == "workflow":
            runs = await self._put_back_others(runs, chosen)
        carried = await self._begin(group, runs, chosen, mode) if chosen else runs
        for run in carried:
            if run.had_workflow:
                self._in_background(self._tell_left(run.run_id))
        return carried

    @staticmethod
    def _may_be_over(run: ClaimedRun, mode: Mode) -> bool:
        # A run that was put back no longer shows that it had a workflow.
        return run.had_workflow or (mode == "workflow" and run.recorded)

    async def _leave_out_ended(self, group: Group, runs: list[ClaimedRun], mode: Mode) -> list[ClaimedRun]:
        """Leave out the runs whose workflows somebody ended in Temporal while they waited.

        The watch would look too late: it compares a workflow with its own claim, and these have another. A
        run that only a workflow may execute is queued if Temporal does not answer.
        """
        over = await asyncio.gather(*(self._is_over(group, run, mode) for run in runs))
        unknown = {
            run.run_id: run.claim_id
            for run, ended in zip(runs, over, strict=True)
            if ended is None and mode == "workflow" and self._takes(run, mode)
        }
        if unknown:
            async with self._database.connection() as connection:
                await own_runs.put_back(connection, unknown)
        left = [run for run, ended in zip(runs, over, strict=True) if not ended and run.run_id not in unknown]
        for run_id in {run.run_id for run in runs} - {run.run_id for run in left}:
            self.free_place(run_id)
        return left

    async def _is_over(self, group: Group, run: ClaimedRun, mode: Mode) -> bool | None:
        """Return whether somebody has ended the workflow of a run; None if Temporal does not answer."""
        if not self._may_be_over(run, mode):
            return False
        if time.monotonic() < self._broken_until:
            return None
        try:
            async with asyncio.timeout(self._patience if mode == "workflow" else _START_SECONDS):
                return await self.heed_end(run.run_id, group.of.account_id)
        except TEMPORAL_AWAY as error:
            _log.info("workflow_not_examined", run_id=str(run.run_id), error=repr(error))
            self._broken_until = time.monotonic() + _BREAK_SECONDS
            return None

    async def _begin(
        self, group: Group, runs: list[ClaimedRun], chosen: list[ClaimedRun], mode: Mode
    ) -> list[ClaimedRun]:
        """Start or continue the workflows of the chosen runs; return the runs that the shift executes."""
        claims = {run.run_id: run.claim_id for run in chosen}
        async with self._database.connection() as connection:
            handed = await own_runs.hand_over(connection, claims, always=mode == "workflow")
        given = [run for run in chosen if handed.get(run.run_id)]
        for run_id in claims.keys() - {run.run_id for run in given}:
            self.free_place(run_id)
        # A run that is missing has another carrier.
        here = [run for run in runs if run.run_id not in claims or handed.get(run.run_id) is False]
        started = await asyncio.gather(*(self._start(group, run, mode) for run in given))
        return here + [run for run in started if run is not None]

    def _count_calls(self, runs: int, calls: int) -> None:
        now = time.monotonic()
        lately = runs * calls + self._lately * math.exp(self._lately_at - now)
        # Bounded just above a burst, so that a burst ends soon.
        self._lately = min(lately, 1.25 * _BURST + calls)
        self._lately_at = now

    async def _put_back_others(self, runs: list[ClaimedRun], chosen: list[ClaimedRun]) -> list[ClaimedRun]:
        """Queue the runs that only workflows may execute and that have no place; return the rest.

        Runs that were claimed for a place have one. These were claimed before their workflow's setting
        required one.
        """
        with_place = {run.run_id for run in chosen}
        claims = {
            run.run_id: run.claim_id
            for run in runs
            if run.run_id not in with_place and self._takes(run, "workflow")
        }
        if claims:
            async with self._database.connection() as connection:
                await own_runs.put_back(connection, claims)
        return [run for run in runs if run.run_id not in claims]

    def _choose(self, account_id: UUID, runs: list[ClaimedRun], mode: Mode, calls: int) -> list[ClaimedRun]:
        """Choose all runs with a reserved place, and as many of the others as there is room for."""
        wanted = [run for run in runs if self._takes(run, mode)]
        chosen = [run for run in wanted if run.run_id in self._places]
        room = self._rested_room(calls) if mode == "auto" else self.room
        chosen += [run for run in wanted if run.run_id not in self._places][:room]
        self.reserve(account_id, chosen)
        for run_id in {run.run_id for run in runs} - {run.run_id for run in chosen}:
            self.free_place(run_id)
        return chosen

    @staticmethod
    def _takes(run: ClaimedRun, mode: Mode) -> bool:
        # A run that has cost two workers runs alone, by a shift.
        is_fit = run.priority < ALONE
        return is_fit and (mode == "workflow" or (mode == "auto" and run.priority != WAITED))

    async def _start(self, group: Group, run: ClaimedRun, mode: Mode) -> ClaimedRun | None:
        """Start a run's workflow, or signal it; if that fails, return the run under another claim.

        A run that only a workflow may execute is queued instead: it waits for Temporal. The next start gets
        more time, because Temporal may only be slow.
        """
        labels = starts.RunLabels(*group.of, run.kind, run.priority, run.parent_run_id)
        patience = self._patience if mode == "workflow" else _START_SECONDS
        began = time.monotonic()
        try:
            # The client retries, each time with a deadline of its own: only this timeout bounds the whole.
            async with asyncio.timeout(patience):
                await starts.start_run(self._client, OwnRun(run.run_id, run.claim_id), labels)
        except TEMPORAL_AWAY as error:
            _log.warning("hand_over_failed", run_id=str(run.run_id), error=repr(error))
            self._broken_until = time.monotonic() + _BREAK_SECONDS
            if isinstance(error, TimeoutError):
                self._patience = min(2 * patience, _LONGEST_START_SECONDS)
            self.free_place(run.run_id)
            return await self._take_back(group, run, mode)
        self._patience = max(_START_SECONDS, 2 * (time.monotonic() - began))
        return None

    async def _take_back(self, group: Group, run: ClaimedRun, mode: Mode) -> ClaimedRun | None:
        try:
            async with self._database.connection() as connection:
                if mode == "workflow":
                    await own_runs.put_back(connection, {run.run_id: run.claim_id})
                    return None
                claim_id = await own_runs.take_back(connection, run.run_id, run.claim_id, group.held.id)
        except AWAY as error:
            # The run is queued later, as one that was not taken up. The others were handed over nevertheless.
            _log.warning("hand_over_failed", run_id=str(run.run_id), error=repr(error))
            return None
        return None if claim_id is None else replace(run, claim_id=claim_id)

    def _in_background(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_left(self, run_id: UUID) -> None:
        """Signal the workflow of a run that a shift has the run; if this fails, the watch repeats it."""
        handle = self._client.get_workflow_handle(starts.run_workflow_id(run_id))
        try:
            async with asyncio.timeout(_START_SECONDS):
                await handle.signal(LEFT)
        except TEMPORAL_AWAY as error:
            _log.info("workflow_not_told", run_id=str(run_id), error=str(error))

    def free_place(self, run_id: UUID) -> None:
        """Free the place of a run that has ended, or waits."""
        if (place := self._places.pop(run_id, None)) is not None:
            self._resting = [*self._resting[-_PLACES:], place.since + _REST_SECONDS]
            self.on_room()

    async def free_stale_places(self) -> None:
        """Free the places of runs that have ended, or wait, without a message to this process."""
        now = time.monotonic()
        old = [run_id for run_id, place in self._places.items() if now - place.since > _ASK_SECONDS]
        if not old:
            return
        async with self._database.connection() as connection:
            at_work = await own_runs.find_at_work(connection, old)
        for run_id in set(old) - at_work:
            self.free_place(run_id)

    def has(self, run_id: UUID) -> bool:
        """Return whether a run has one of these places."""
        return run_id in self._places

    async def cancel(self, run_id: UUID) -> None:
        """Cancel the workflow of a run that was cancelled."""
        self.free_place(run_id)
        with unless_missing():
            await self._client.get_workflow_handle(starts.run_workflow_id(run_id)).cancel()
