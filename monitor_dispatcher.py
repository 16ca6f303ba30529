"""The dispatcher of monitors: has what waits begin, and Schedules say when the next runs are due."""

from __future__ import annotations

import asyncio
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout
from temporalio.client import Client

import logs
from activities.halting import Halt
from activities.loop_lag import LoopLag
from activities.monitors import MonitorActivities
from database import Connection, Database
from dispatch_loop import ASK_SECONDS, OneByOneLoop
from models.monitors import ending, removing, runs, scheduling, working
from models.monitors.monitors import CHANGED_CHANNEL
from models.monitors.working import Claimed
from temporal import monitor_schedules, starts
from workflows.messages import MonitorRunInput

_log = logs.get(__name__)
_RUNS_AT_WORK = 64
"""In the installation: what each has in memory is bounded by the places for lookups."""
_PAUSE = 0.025
_LONG_SECONDS = 600.0


class MonitorDispatcher(OneByOneLoop[Claimed]):
    """Claims and starts runs, and tells Schedules; one in each worker process, any number side by side."""

    def __init__(
        self,
        database: Database,
        client: Client,
        activities: MonitorActivities,
        halt: Halt,
        lag: LoopLag,
        *,
        eager: bool = True,
    ) -> None:
        """Prepare.

        Args:
            database: where runs wait.
            client: as `OneByOneLoop`.
            activities: accept what its Schedule has missed, and notify.
            halt: as `OneByOneLoop`.
            lag: as `OneByOneLoop`.
            eager: off with worker versioning, which an eager start would bypass.
        """
        super().__init__(database, {CHANGED_CHANNEL: self._heard}, "monitor dispatcher", client, halt, lag)
        self._activities = activities
        self._eager = eager

    async def _claim_all(self) -> float:
        if self._stopping:
            return float("inf")
        if (full_until := self._starts_full_until()) is not None:
            return full_until
        async with self._database.connection() as connection:
            unscheduled = await scheduling.find_unscheduled(connection)
            claimed = await working.claim(connection, _RUNS_AT_WORK) if self._may_claim else []
        for run in claimed:
            self._spawn_start(str(run.run_id), self.begin(run))
        if unscheduled:
            self._begin_chore("schedule", self._schedule(unscheduled), ASK_SECONDS * 2)
        # Each run that ends wakes us: what ends meanwhile makes room for one claim.
        await asyncio.sleep(_PAUSE)
        return float("inf")

    def _workflow_id(self, claimed: Claimed) -> str:
        return starts.monitor_workflow_id(claimed.run_id)

    async def _start(self, claimed: Claimed) -> None:
        given = MonitorRunInput(claimed.run_id, chunks=-(-claimed.targets // runs.CHUNK))
        await starts.start_monitor_run(
            self._client, given, claimed.account_id, claimed.monitor_id, claimed.targets, eager=self._eager
        )

    async def _mark_begun(self, connection: Connection, claimed: Claimed) -> None:
        await working.mark_begun(connection, claimed.run_id)

    async def _give_up(self, claimed: Claimed, message: str) -> None:
        async with self._database.transaction() as connection:
            error = {"code": "run_lost", "message": message}
            ended = await ending.finish(connection, claimed.run_id, error)
        if ended is not None:
            _log.warning("run_lost", run_id=str(claimed.run_id))
            self._activities.notify(ended)

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            overdue = await scheduling.find_overdue(connection)
            unseen = await working.find_unseen(connection)
            deleted = await removing.find_deleted(connection)
        for run in unseen:
            self._begin_chore(str(run.run_id), self.begin(run))
        if overdue:
            self._begin_chore("overdue", self._accept_due(overdue), _LONG_SECONDS)
        if deleted:
            self._begin_chore("remove", self._remove(deleted), _LONG_SECONDS)

    async def _accept_due(self, monitor_ids: list[UUID]) -> None:
        """Accept the runs of monitors for which nobody has come; one that cannot be run stops no other."""
        for monitor_id in monitor_ids:
            try:
                await self._activities.accept_due_run(monitor_id)
            except (psycopg.OperationalError, PoolTimeout):
                raise
            except Exception as error:
                _log.error("due_run_not_accepted", monitor_id=str(monitor_id), exc_info=error)

    async def _schedule(self, monitor_ids: list[UUID]) -> None:
        """Tell the Schedules of monitors when these are due."""
        told = 0
        for monitor_id in monitor_ids:
            async with self._database.transaction() as connection:
                due = await scheduling.lock_schedule(connection, monitor_id)
                if due is not None:
                    async with asyncio.timeout(ASK_SECONDS):
                        await monitor_schedules.tell(self._client, *due)
                    await scheduling.mark_scheduled(connection, due)
                    told += 1
        # Another worker is at the rest: to look again at once would be to look all the time.
        if told:
            self._wake.set()

    async def _remove(self, monitor_ids: list[UUID]) -> None:
        """Remove what is left of monitors that were deleted."""
        for monitor_id in monitor_ids:
            async with self._database.transaction() as connection:
                # Who tells it at this moment, since it read the row before, would make it anew.
                if not await scheduling.try_to_lock(connection, monitor_id):
                    continue
                async with asyncio.timeout(ASK_SECONDS):
                    await monitor_schedules.remove(self._client, monitor_id)
            async with self._database.connection() as connection:
                await removing.purge_deleted(connection, monitor_id)
