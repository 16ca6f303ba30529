"""The dispatcher of Schedules: updates them when due times change, and accepts runs that they have missed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from temporalio.client import Client

import logs
from activities.monitors import MonitorActivities
from activities.schedules import SCHEDULED, ScheduleActivities, accept_each
from database import Connection, Database
from dispatch.loop import ASK_SECONDS, DispatchLoop
from models.monitors import cleanup
from models.monitors.monitors import CHANGED_CHANNEL
from models.schedules import automation_schedules
from models.schedules.scheduling import Due, ScheduledTable
from temporal.client import TEMPORAL_AWAY
from temporal.due_schedules import DueSchedules

_log = logs.get(__name__)
_UPDATED_AT_ONCE = 16
# The Schedule of a row acts first; a sweep finds what it has missed.
_LATE_SECONDS, _ACCEPTED_AT_ONCE = 30, 100
_PAUSE = 0.025
_LONG_SECONDS = 600.0


@dataclass(frozen=True)
class _Scheduled:
    """A kind of rows that have Schedules.

    Attributes:
        accept: accepts the run of a row that is due.
        purge: deletes the rest of a row whose Schedule was deleted.
    """

    table: ScheduledTable
    schedules: DueSchedules
    accept: Callable[[UUID], Awaitable[None]]
    purge: Callable[[Connection, UUID], Awaitable[None]]


class ScheduleDispatcher(DispatchLoop):
    """Keeps Schedules equal to their rows; one in each worker process, in parallel with others."""

    def __init__(
        self,
        database: Database,
        client: Client,
        monitors: MonitorActivities,
        schedules: ScheduleActivities,
    ) -> None:
        """Create the dispatcher.

        Args:
            database: the database with the rows.
            client: for the Schedules.
            monitors: accept the runs that Schedules of monitors have missed.
            schedules: accept the runs that Schedules of workflows have missed.
        """
        super().__init__(database, {CHANGED_CHANNEL: self._on_notification}, "schedule dispatcher")
        self._client = client
        # Each waits for Temporal in a transaction: together they could hold every connection of the worker.
        self._asking = asyncio.Lock()
        of_monitors, of_workflows = SCHEDULED
        self._kinds = (
            _Scheduled(*of_monitors, monitors.accept_due_run, cleanup.purge_deleted),
            _Scheduled(*of_workflows, schedules.accept, automation_schedules.purge_ended),
        )

    async def _claim_all(self) -> float:
        for kind in self._kinds:
            async with self._database.connection() as connection:
                unscheduled = await kind.table.find_unscheduled(connection, _UPDATED_AT_ONCE)
            if unscheduled:
                self._begin_chore(
                    f"schedule {kind.table.name}", self._update(kind, unscheduled), ASK_SECONDS * 2
                )
        await asyncio.sleep(_PAUSE)
        return float("inf")

    async def _sweep(self) -> None:
        for kind in self._kinds:
            async with self._database.connection() as connection:
                overdue = await kind.table.find_due(
                    connection, seconds_late=_LATE_SECONDS, limit=_ACCEPTED_AT_ONCE
                )
                gone = await kind.table.find_gone(connection)
            if overdue:
                self._begin_chore(
                    f"overdue {kind.table.name}", accept_each(kind.accept, overdue), _LONG_SECONDS
                )
            if gone:
                self._begin_chore(f"remove {kind.table.name}", self._remove(kind, gone), _LONG_SECONDS)

    async def _update(self, kind: _Scheduled, ids: list[UUID]) -> None:
        """Update Schedules to the due times of their rows, in parallel; failed ones are updated later."""
        async with self._asking, self._database.transaction() as connection:
            due = await kind.table.lock_schedules(connection, ids)
            outcomes = await asyncio.gather(*(self._update_one(kind, one) for one in due))
            updated = [one for one, error in zip(due, outcomes, strict=True) if error is None]
            changing = await kind.table.mark_scheduled(connection, updated)
        for one in changing:  # separately, so that waiting for one row does not delay another
            async with self._database.connection() as connection:
                await kind.table.mark_changed(connection, one)
        if errors := [error for error in outcomes if error is not None]:
            _log.warning(
                "schedules_not_updated", table=kind.table.name, count=len(errors), error=repr(errors[0])
            )
        # Another worker has the rest: an immediate retry would become a busy loop.
        if updated:
            self._wake.set()

    async def _update_one(self, kind: _Scheduled, due: Due) -> Exception | None:
        """Update one Schedule; return the error if Temporal is away."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await kind.schedules.update(self._client, *due)
        except TEMPORAL_AWAY as error:
            return error
        return None

    async def _remove(self, kind: _Scheduled, ids: list[UUID]) -> None:
        """Delete the Schedules and the rest of rows that are gone."""
        for id in ids:
            async with self._asking, self._database.transaction() as connection:
                # A worker that updates it at this moment, after it read the row, would create it anew.
                if not await kind.table.try_to_lock(connection, [id]):
                    continue
                async with asyncio.timeout(ASK_SECONDS):
                    await kind.schedules.remove(self._client, id)
            async with self._database.connection() as connection:
                await kind.purge(connection, id)
