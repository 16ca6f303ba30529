"""Handing claimed runs to Temporal workflows of their own: which, how many, and what if it is away."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

import logs
from database import AWAY, Database
from execution.shift import Group
from language.definition import Execution as Mode
from models.priorities import ALONE, WAITED
from models.runs import own_runs
from models.runs.run_work import ClaimedRun
from temporal import starts
from temporal.client import TEMPORAL_AWAY
from workflows.messages import LEFT, OwnRun

_log = logs.get(__name__)
_PLACES = 8
# A place that has come free rests before `auto` uses it again, so that a place serves three runs a second:
# own workflows of more fill two cores, and all wait. A burst then goes by shifts.
_REST_SECONDS = 1 / 3
# More runs of a second than this, in an installation, are a burst.
_BURST = 64
# How long Temporal may take to answer; then, and for how long, runs go by shift.
_START_SECONDS, _BREAK_SECONDS = 1.0, 5.0
# Where Temporal has not ended a wait in time, runs under `auto` do not try it for so long.
_PREFER_SHIFT_SECONDS = 1.0
# A place whose run nobody told of is looked after.
_ASK_SECONDS = 2.0


class HandingOver:
    """The own places of a worker: how many runs it has with workflows of their own.

    Attributes:
        workers: how many workers share the installation's places.
        on_room: is told when there is a place again.
    """

    def __init__(self, database: Database, client: Client, default: Mode) -> None:
        self._database = database
        self._client = client
        self._default: Mode = default
        self._places: dict[UUID, float] = {}
        self._resting: list[float] = []
        # Runs that were claimed of late, each counting for a second or so; and as of when.
        self._lately, self._lately_at = 0.0, time.monotonic()
        self._telling: set[asyncio.Task[None]] = set()
        self._broken_until = self._shift_until = 0.0
        self.workers = 1
        self.on_room: Callable[[], None] = lambda: None

    @property
    def room(self) -> int:
        """How many more runs there is a place for; none while Temporal is away."""
        if time.monotonic() < self._broken_until:
            return 0
        return max(0, max(1, _PLACES // max(1, self.workers)) - len(self._places))

    @property
    def _rested_room(self) -> int:
        """Count the free places that have rested; none in a burst, or just after a late wait."""
        now = time.monotonic()
        if now < self._shift_until or self._lately * max(1, self.workers) > _BURST:
            return 0
        self._resting = [until for until in self._resting if until > now]
        return max(0, self.room - len(self._resting))

    def prefer_shift(self) -> None:
        """Let runs under `auto` go by shift for a moment: workflows have not ended waits in time.

        Temporal may be away. To find that out by a hand-over would make what is late later still.
        """
        self._shift_until = time.monotonic() + _PREFER_SHIFT_SECONDS

    def reserve(self, run_ids: Iterable[UUID]) -> None:
        """Keep a place for each of these runs, which were claimed for one: the next claim counts on fewer."""
        self._places.update(dict.fromkeys(run_ids, time.monotonic()))

    async def hand_over(self, group: Group, runs: list[ClaimedRun], mode: Mode | None) -> list[ClaimedRun]:
        """Give runs to workflows of their own, as far as they should have one and there is room.

        Args:
            group: that they were claimed with.
            runs: of it.
            mode: what their workflow says.

        Returns:
            Those that go by the shift.
        """
        self._count(len(runs))
        mode = mode or self._default
        chosen = self._choose(runs, mode)
        if mode == "workflow":
            runs = await self._put_back_others(runs, chosen)
        carried = await self._begin(group, runs, chosen, mode) if chosen else runs
        for run in carried:
            if run.had_workflow:
                self._in_background(self._tell_left(run.run_id))
        return carried

    async def _begin(
        self, group: Group, runs: list[ClaimedRun], chosen: list[ClaimedRun], mode: Mode
    ) -> list[ClaimedRun]:
        """Have the workflows of those that were chosen begin, or go on; return what goes by the shift."""
        claims = {run.run_id: run.claim_id for run in chosen}
        async with self._database.connection() as connection:
            handed = await own_runs.hand_over(connection, claims)
        given = [run for run in chosen if handed.get(run.run_id)]
        for run_id in claims.keys() - {run.run_id for run in given}:
            self.left(run_id)
        # What is not there any more is somebody else's.
        here = [run for run in runs if run.run_id not in claims or handed.get(run.run_id) is False]
        started = await asyncio.gather(*(self._start(group, run, mode) for run in given))
        return here + [run for run in started if run is not None]

    def _count(self, runs: int) -> None:
        now = time.monotonic()
        # No more than tells of a burst, so that it is over soon.
        self._lately = min(runs + self._lately * math.exp(self._lately_at - now), 1.25 * _BURST)
        self._lately_at = now

    async def _put_back_others(self, runs: list[ClaimedRun], chosen: list[ClaimedRun]) -> list[ClaimedRun]:
        """Have those of runs that only workflows take forward wait for a place; return the rest.

        What was claimed for a place has one: these were claimed as runs of a workflow that said nothing, or
        something else by then.
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

    def _choose(self, runs: list[ClaimedRun], mode: Mode) -> list[ClaimedRun]:
        """Choose all that a place is kept for, and of the others as many as there is room for."""
        wanted = [run for run in runs if self._takes(run, mode)]
        chosen = [run for run in wanted if run.run_id in self._places]
        room = self._rested_room if mode == "auto" else self.room
        chosen += [run for run in wanted if run.run_id not in self._places][:room]
        self.reserve(run.run_id for run in chosen)
        for run_id in {run.run_id for run in runs} - {run.run_id for run in chosen}:
            self.left(run_id)
        return chosen

    @staticmethod
    def _takes(run: ClaimedRun, mode: Mode) -> bool:
        # What has cost two workers goes alone, by a shift.
        is_fit = run.priority < ALONE
        return is_fit and (mode == "workflow" or (mode == "auto" and run.priority != WAITED))

    async def _start(self, group: Group, run: ClaimedRun, mode: Mode) -> ClaimedRun | None:
        """Start a run's workflow, or tell it; give the run back, under another claim, if that fails.

        Where only a workflow is to take it forward, it is queued: it waits for Temporal.
        """
        of = group.of
        try:
            # The client tries again, each time for so long: its own deadline would not end that.
            async with asyncio.timeout(_START_SECONDS):
                await starts.start_run(
                    self._client,
                    OwnRun(run.run_id, run.claim_id),
                    account_id=of.account_id,
                    automation_id=of.automation_id,
                    version=of.version,
                    trigger=run.kind,
                    priority=run.priority,
                    parent_run_id=run.parent_run_id,
                )
        except TEMPORAL_AWAY as error:
            _log.warning("hand_over_failed", run_id=str(run.run_id), error=repr(error))
            self._broken_until = time.monotonic() + _BREAK_SECONDS
            self.left(run.run_id)
            return await self._take_back(group, run, mode)
        return None

    async def _take_back(self, group: Group, run: ClaimedRun, mode: Mode) -> ClaimedRun | None:
        try:
            async with self._database.connection() as connection:
                if mode == "workflow":
                    await own_runs.put_back(connection, {run.run_id: run.claim_id})
                    return None
                claim_id = await own_runs.take_back(connection, run.run_id, run.claim_id, group.held.id)
        except AWAY as error:
            # It is queued as one that nothing has taken up. The others were handed over all the same.
            _log.warning("hand_over_failed", run_id=str(run.run_id), error=repr(error))
            return None
        return None if claim_id is None else replace(run, claim_id=claim_id)

    def _in_background(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_left(self, run_id: UUID) -> None:
        """Tell the workflow of a run that a shift has it; should that fail, the watch does."""
        handle = self._client.get_workflow_handle(starts.run_workflow_id(run_id))
        try:
            async with asyncio.timeout(_START_SECONDS):
                await handle.signal(LEFT)
        except TEMPORAL_AWAY as error:
            _log.info("workflow_not_told", run_id=str(run_id), error=str(error))

    def left(self, run_id: UUID) -> None:
        """Free the place of a run that has ended, or waits."""
        if (since := self._places.pop(run_id, None)) is not None:
            self._resting = [*self._resting[-_PLACES:], since + _REST_SECONDS]
            self.on_room()

    async def look_after(self) -> None:
        """Free the places of runs that have ended, or wait, without a word to this process."""
        now = time.monotonic()
        old = [run_id for run_id, since in self._places.items() if now - since > _ASK_SECONDS]
        if not old:
            return
        async with self._database.connection() as connection:
            at_work = await own_runs.find_at_work(connection, old)
        for run_id in set(old) - at_work:
            self.left(run_id)

    def has(self, run_id: UUID) -> bool:
        """Whether a run has one of these places."""
        return run_id in self._places

    async def cancel(self, run_id: UUID) -> None:
        """Cancel the workflow of a run that was cancelled."""
        self.left(run_id)
        try:
            await self._client.get_workflow_handle(starts.run_workflow_id(run_id)).cancel()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
