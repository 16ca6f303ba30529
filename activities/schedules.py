"""The activity of Schedules: having them say what rows say."""

from __future__ import annotations

from temporalio import activity
from temporalio.client import Client

from activities.heartbeat import heartbeats
from database import Database
from models import scheduling
from temporal import due_schedules

SCHEDULED = ((scheduling.MONITORS, due_schedules.MONITORS),)
"""What has Schedules: the rows, and these."""


class ScheduleActivities:
    """What the maintenance workflows have done."""

    def __init__(self, database: Database, client: Client) -> None:
        """Prepare."""
        self._database = database
        self._client = client

    @activity.defn
    async def reconcile_schedules(self) -> int:
        """Have the Schedules of monitors say what their rows say, should they differ.

        Returns:
            How many were removed that belong to no row.
        """
        removed = 0
        async with heartbeats():
            for table, schedules in SCHEDULED:
                scheduled = await schedules.list_all(self._client)
                async with self._database.connection() as connection:
                    strangers = await table.reconcile(connection, scheduled)
                for id in strangers:
                    await schedules.remove(self._client, id)
                removed += len(strangers)
        return removed
