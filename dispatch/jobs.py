"""The dispatcher of bulk jobs: starts waiting jobs, and deletes the rows of deleted ones."""

from __future__ import annotations

from uuid import UUID

import logs
from activities.jobs import JobActivities
from database import Connection
from dispatch.loop import DispatchServices, OneByOneLoop
from models.jobs import acceptance, cleanup, completion, queue
from models.jobs.jobs import CHANGED_CHANNEL
from models.jobs.queue import Claimed
from temporal import starts
from workflows.messages import BulkJobInput

_log = logs.get(__name__)
_JOBS_AT_WORK = 32
"""The highest number of jobs at work in the installation: the places for lookups bound their memory."""
_LONG_SECONDS = 600.0


class JobDispatcher(OneByOneLoop[Claimed]):
    """Claims and starts jobs; each worker process has one, and any number can run in parallel."""

    def __init__(self, services: DispatchServices, activities: JobActivities) -> None:
        """Create the dispatcher; `activities` send notifications."""
        super().__init__(services, [CHANGED_CHANNEL], "job dispatcher", queue.JOBS)
        self._activities = activities

    async def _claim(self, connection: Connection) -> list[Claimed]:
        return await queue.claim(connection, _JOBS_AT_WORK)

    def _id(self, claimed: Claimed) -> UUID:
        return claimed.job_id

    def _workflow_id(self, claimed: Claimed) -> str:
        return starts.job_workflow_id(claimed.job_id)

    async def _start(self, claimed: Claimed) -> None:
        given = BulkJobInput(claimed.job_id, chunks=-(-claimed.queries // acceptance.CHUNK))
        await starts.start_job(self._client, given, claimed.account_id, claimed.queries, eager=self._eager)

    async def _fail(self, claimed: Claimed, message: str) -> None:
        async with self._database.transaction() as connection:
            error = {"code": "job_lost", "message": message}
            ended = await completion.finish(connection, claimed.job_id, error)
        self._activities.notify(claimed.job_id, ended=ended)
        if ended:
            _log.warning("job_lost", job_id=str(claimed.job_id))

    async def _sweep(self) -> None:
        await super()._sweep()
        async with self._database.connection() as connection:
            deleted = await cleanup.find_deleted(connection)
        if deleted:
            self._begin_chore("remove", self._remove(deleted), _LONG_SECONDS)

    async def _remove(self, job_ids: list[UUID]) -> None:
        """Delete the rows of jobs that were deleted."""
        for job_id in job_ids:
            async with self._database.connection() as connection:
                await cleanup.purge(connection, job_id)
