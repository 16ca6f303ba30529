"""The dispatcher of bulk jobs: has those that wait begin, and removes what deleted ones have left."""

from __future__ import annotations

import asyncio
from uuid import UUID

from temporalio.client import Client

import logs
from activities.halting import Halt
from activities.jobs import JobActivities
from activities.loop_lag import LoopLag
from database import Connection, Database
from dispatch_loop import OneByOneLoop
from models.jobs import accepting, ending, removing, working
from models.jobs.jobs import CHANGED_CHANNEL
from models.jobs.working import Claimed
from temporal import starts
from workflows.messages import BulkJobInput

_log = logs.get(__name__)
_JOBS_AT_WORK = 32
"""In the installation: what each has in memory is bounded by the places for lookups."""
_PAUSE = 0.025
_LONG_SECONDS = 600.0


class JobDispatcher(OneByOneLoop[Claimed]):
    """Claims and starts jobs; one in each worker process, any number side by side."""

    def __init__(
        self,
        database: Database,
        client: Client,
        activities: JobActivities,
        halt: Halt,
        lag: LoopLag,
        *,
        eager: bool = True,
    ) -> None:
        """Prepare; `activities` notify, all else is as for monitors."""
        super().__init__(database, {CHANGED_CHANNEL: self._heard}, "job dispatcher", client, halt, lag)
        self._activities = activities
        self._eager = eager

    async def _claim_all(self) -> float:
        if self._stopping:
            return float("inf")
        if (full_until := self._starts_full_until()) is not None:
            return full_until
        if self._may_claim:
            async with self._database.connection() as connection:
                claimed = await working.claim(connection, _JOBS_AT_WORK)
            for job in claimed:
                self._spawn_start(str(job.job_id), self.begin(job))
        # Each job that ends wakes us: what ends meanwhile makes room for one claim.
        await asyncio.sleep(_PAUSE)
        return float("inf")

    def _workflow_id(self, claimed: Claimed) -> str:
        return starts.job_workflow_id(claimed.job_id)

    async def _start(self, claimed: Claimed) -> None:
        given = BulkJobInput(claimed.job_id, chunks=-(-claimed.queries // accepting.CHUNK))
        await starts.start_job(self._client, given, claimed.account_id, claimed.queries, eager=self._eager)

    async def _mark_begun(self, connection: Connection, claimed: Claimed) -> None:
        await working.JOBS.mark_begun(connection, claimed.job_id)

    async def _give_up(self, claimed: Claimed, message: str) -> None:
        async with self._database.transaction() as connection:
            error = {"code": "job_lost", "message": message}
            ended = await ending.finish(connection, claimed.job_id, error)
        self._activities.notify(claimed.job_id, ended=ended)
        if ended:
            _log.warning("job_lost", job_id=str(claimed.job_id))

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            unseen = await working.JOBS.find_unseen(connection)
            deleted = await removing.find_deleted(connection)
        for job in unseen:
            self._begin_chore(str(job.job_id), self.begin(job))
        if deleted:
            self._begin_chore("remove", self._remove(deleted), _LONG_SECONDS)

    async def _remove(self, job_ids: list[UUID]) -> None:
        """Remove what is left of jobs that were deleted."""
        for job_id in job_ids:
            async with self._database.connection() as connection:
                await removing.purge(connection, job_id)
