"""The chores of monitors: the deletion of old runs."""

from __future__ import annotations

from temporalio import activity

from database import Database
from execution.heartbeat import heartbeats
from models.monitors import cleanup


class MonitorChores:
    """The activities of the maintenance workflows for monitors."""

    def __init__(self, database: Database, kept_days: int) -> None:
        """Create the activities; `kept_days` is the retention of monitors without their own."""
        self._database = database
        self._kept_days = kept_days

    @activity.defn
    async def purge_monitors(self) -> int:
        """Delete runs of monitors that are too old; return their number."""
        async with heartbeats(), self._database.chore_connection() as connection:
            return await cleanup.purge_old(connection, self._kept_days)
