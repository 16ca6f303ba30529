"""The activities of Schedules: accepting a run that is due, and having Schedules say what rows say."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from temporalio import activity
from temporalio.client import Client

from activities.heartbeat import heartbeats
from database import Database, Notifier
from models import schedule_triggers, scheduling
from models.runs import QUEUED_CHANNEL
from temporal import due_schedules
from workflows.messages import ACCEPT_SCHEDULED_RUN

SCHEDULED = (
    (scheduling.MONITORS, due_schedules.MONITORS),
    (scheduling.WORKFLOWS, due_schedules.WORKFLOWS),
)
"""What has Schedules: the rows, and these."""


class ScheduleActivities:
    """What `ScheduledTrigger` and the maintenance workflows have done."""

    def __init__(self, database: Database, client: Client, notifier: Notifier) -> None:
        """Prepare; `notifier` tells the dispatcher of runs."""
        self._database = database
        self._client = client
        self._notifier = notifier

    @activity.defn(name=ACCEPT_SCHEDULED_RUN)
    async def accept_scheduled_run(self, automation_id: UUID, come: datetime | None = None) -> None:
        """Accept the run of a workflow that is due; else do nothing. `come`: the moment of its Schedule."""
        async with self._database.transaction() as connection:
            accepted = await schedule_triggers.accept_due(connection, automation_id, come)
        if accepted is not None:
            self._notifier.notify(QUEUED_CHANNEL)

    @activity.defn
    async def reconcile_schedules(self) -> int:
        """Have the Schedules of monitors and workflows say what their rows say, should they differ.

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
