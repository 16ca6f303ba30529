"""The chores of monitors: what is too old goes, and Schedules say what rows say."""

from __future__ import annotations

from temporalio import activity
from temporalio.client import Client

from activities.heartbeat import heartbeats
from database import Database, Notifier
from models.monitors import monitors, removing, scheduling
from temporal import monitor_schedules


class MonitorChores:
    """Activities of the maintenance workflows."""

    def __init__(self, database: Database, client: Client, notifier: Notifier, kept_days: int) -> None:
        """Prepare; `kept_days`: for how long runs are kept whose monitor says nothing else."""
        self._database = database
        self._client = client
        self._notifier = notifier
        self._kept_days = kept_days

    @activity.defn
    async def purge_monitors(self) -> int:
        """Delete runs of monitors that are older than they are kept; returns how many there were."""
        async with heartbeats(), self._database.connection() as connection:
            return await removing.purge_old(connection, self._kept_days)

    @activity.defn
    async def reconcile_schedules(self) -> int:
        """Have the Schedules of monitors say what their rows say, should they differ.

        Returns:
            How many were removed that belong to no monitor.
        """
        async with heartbeats():
            scheduled = await monitor_schedules.list_all(self._client)
            async with self._database.connection() as connection:
                strangers = await scheduling.reconcile(connection, scheduled)
            for monitor_id in strangers:
                await monitor_schedules.remove(self._client, monitor_id)
        self._notifier.notify(monitors.CHANGED_CHANNEL)
        return len(strangers)
