"""The dispatcher of monitors: starts waiting runs."""

from __future__ import annotations

from uuid import UUID

import logs
from activities.monitors import MonitorActivities
from database import Connection
from dispatch.loop import DispatchServices, OneByOneLoop
from models.monitors import completion, queue, runs
from models.monitors.monitors import CHANGED_CHANNEL
from models.monitors.queue import Claimed
from temporal import starts
from workflows.messages import MonitorRunInput

_log = logs.get(__name__)
_RUNS_AT_WORK = 64
"""The highest number of runs at work in the installation: the places for lookups bound their memory."""


class MonitorDispatcher(OneByOneLoop[Claimed]):
    """Claims and starts runs; each worker process has one, and any number can run in parallel."""

    def __init__(self, services: DispatchServices, activities: MonitorActivities) -> None:
        """Create the dispatcher; `activities` send notifications."""
        super().__init__(services, [CHANGED_CHANNEL], "monitor dispatcher", queue.RUNS)
        self._activities = activities

    async def _claim(self, connection: Connection) -> list[Claimed]:
        return await queue.claim(connection, _RUNS_AT_WORK)

    def _id(self, claimed: Claimed) -> UUID:
        return claimed.run_id

    def _workflow_id(self, claimed: Claimed) -> str:
        return starts.monitor_workflow_id(claimed.run_id)

    async def _start(self, claimed: Claimed) -> None:
        given = MonitorRunInput(claimed.run_id, chunks=-(-claimed.targets // runs.CHUNK))
        await starts.start_monitor_run(
            self._client, given, claimed.account_id, claimed.monitor_id, claimed.targets, eager=self._eager
        )

    async def _fail(self, claimed: Claimed, message: str) -> None:
        async with self._database.transaction() as connection:
            error = {"code": "run_lost", "message": message}
            ended = await completion.finish(connection, claimed.run_id, error)
        if ended is not None:
            _log.warning("run_lost", run_id=str(claimed.run_id))
            self._activities.notify(ended)
