"""The dispatcher of monitors: has what waits begin."""

from __future__ import annotations

import asyncio

from temporalio.client import Client

import logs
from activities.halting import Halt
from activities.loop_lag import LoopLag
from activities.monitors import MonitorActivities
from database import Connection, Database
from dispatch_loop import OneByOneLoop
from models.monitors import ending, runs, working
from models.monitors.monitors import CHANGED_CHANNEL
from models.monitors.working import Claimed
from temporal import starts
from workflows.messages import MonitorRunInput

_log = logs.get(__name__)
_RUNS_AT_WORK = 64
"""In the installation: what each has in memory is bounded by the places for lookups."""
_PAUSE = 0.025


class MonitorDispatcher(OneByOneLoop[Claimed]):
    """Claims and starts runs; one in each worker process, any number side by side."""

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
            activities: notify.
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
            claimed = await working.claim(connection, _RUNS_AT_WORK) if self._may_claim else []
        for run in claimed:
            self._spawn_start(str(run.run_id), self.begin(run))
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
        await working.RUNS.mark_begun(connection, claimed.run_id)

    async def _give_up(self, claimed: Claimed, message: str) -> None:
        async with self._database.transaction() as connection:
            error = {"code": "run_lost", "message": message}
            ended = await ending.finish(connection, claimed.run_id, error)
        if ended is not None:
            _log.warning("run_lost", run_id=str(claimed.run_id))
            self._activities.notify(ended)

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            unseen = await working.RUNS.find_unseen(connection)
        for run in unseen:
            self._begin_chore(str(run.run_id), self.begin(run))
