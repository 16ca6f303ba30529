"""The activities of Schedules: accepting a run that is due, and reconciling Schedules with rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from uuid import UUID

from temporalio import activity
from temporalio.client import Client

import logs
from database import AWAY, Database
from execution.heartbeat import heartbeats
from models.runs import schedule_triggers
from models.runs.runs import QUEUED_CHANNEL
from models.schedules import scheduling
from notifications import Notifier
from temporal import due_schedules
from workflows.messages import ACCEPT_SCHEDULED_RUN

_log = logs.get(__name__)
_ACCEPTED_AT_ONCE = 500
SCHEDULED = (
    (scheduling.MONITORS, due_schedules.MONITORS),
    (scheduling.WORKFLOWS, due_schedules.WORKFLOWS),
)
"""The kinds of rows with Schedules, each with its table and its Schedules."""


class ScheduleActivities:
    """The activities of `ScheduledTrigger` and of the maintenance of Schedules."""

    def __init__(self, database: Database, client: Client, notifier: Notifier) -> None:
        """Create the activities; `notifier` wakes the dispatcher of runs."""
        self._database = database
        self._client = client
        self._notifier = notifier
        self._accepting_all = False

    @activity.defn(name=ACCEPT_SCHEDULED_RUN)
    async def accept_scheduled_run(self, automation_id: UUID, come: datetime | None = None) -> None:
        """Accept the run of a workflow if it is due. `come` is the current time of its Schedule.

        Runs of other workflows that are due are accepted together with it, because Temporal needs a while to
        start very many.
        """
        await self.accept(automation_id, come)
        if self._accepting_all:
            return
        self._accepting_all = True
        try:
            async with self._database.connection() as connection:
                due = await scheduling.WORKFLOWS.find_due(connection, limit=_ACCEPTED_AT_ONCE)
            await accept_each(self.accept, due)
        finally:
            self._accepting_all = False

    async def accept(self, automation_id: UUID, come: datetime | None = None) -> None:
        """Accept the run of this workflow if it is due."""
        async with self._database.transaction() as connection:
            accepted = await schedule_triggers.accept_due(connection, automation_id, come)
        if accepted is not None:
            self._notifier.notify(QUEUED_CHANNEL)

    @activity.defn
    async def reconcile_schedules(self) -> int:
        """Update the Schedules of monitors and workflows that differ from their rows.

        Returns:
            The number of deleted Schedules without a row.
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


async def accept_each(accept: Callable[[UUID], Awaitable[None]], ids: Sequence[UUID]) -> None:
    """Accept the runs of rows that are due; a failure of one does not stop the others."""
    for id in ids:
        try:
            await accept(id)
        except AWAY:
            raise
        except Exception as error:
            _log.error("due_run_not_accepted", id=str(id), exc_info=error)
