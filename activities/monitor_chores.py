"""The chores of monitors: what is too old goes."""

from __future__ import annotations

from temporalio import activity

from database import Database
from execution.heartbeat import heartbeats
from models.monitors import cleanup


class MonitorChores:
    """Activities of the maintenance workflows."""

    def __init__(self, database: Database, kept_days: int) -> None:
        """Prepare; `kept_days`: for how long runs are kept whose monitor says nothing else."""
        self._database = database
        self._kept_days = kept_days

    @activity.defn
    async def purge_monitors(self) -> int:
        """Delete runs of monitors that are older than they are kept; returns how many there were."""
        async with heartbeats(), self._database.connection() as connection:
            return await cleanup.purge_old(connection, self._kept_days)
