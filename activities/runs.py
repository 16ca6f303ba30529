"""Runs as a whole: parking them for a long delay, waking them, ending them."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError

from database import Database, Notifier
from models import batches
from models.runs import FINISHED_CHANNEL
from temporal import starts
from workflows.messages import END_RUNS, PARK_RUNS, WAKE_RUNS, Batch, Parking, RunEndings

_NOTHING = {"name": "-"}


class RunActivities:
    """What a batch does with runs as a whole."""

    def __init__(self, database: Database, notifier: Notifier, client: Client) -> None:
        self._database = database
        self._notifier = notifier
        self._client = client

    @activity.defn(name=PARK_RUNS)
    async def park_runs(self, parking: Parking) -> list[UUID]:
        """Start the batch that goes on after the delay, then hand its runs over; returns those that stay.

        The start comes first: a batch that wakes for nothing does no harm, a run that nobody wakes would.
        """
        batch = parking.batch.model_copy(update={"batch_id": parking.next_id})
        delay = max(parking.wake_at - datetime.now(UTC), timedelta(seconds=1))
        with contextlib.suppress(WorkflowAlreadyStartedError):
            await starts.start(self._client, batch, start_delay=delay)
        async with self._database.transaction() as connection:
            await batches.record(connection, parking.batch.batch_id, parking.records)
            return await batches.park(connection, parking)

    @activity.defn(name=WAKE_RUNS)
    async def wake_runs(self, batch: Batch) -> Batch:
        """Take up the runs that the batch holds, with how far they are."""
        async with self._database.transaction() as connection:
            woken = await batches.wake(connection, batch)
        return woken or batch.model_copy(update={"definition": _NOTHING})

    @activity.defn(name=END_RUNS)
    async def end_runs(self, message: RunEndings) -> None:
        """Store the last steps and the ends of runs; first writer wins, a repetition changes nothing."""
        async with self._database.transaction() as connection:
            await batches.record(connection, message.batch_id, message.records)
            ended = await batches.end(connection, message.batch_id, message.endings)
        if ended:
            self._notifier.notify(FINISHED_CHANNEL, ",".join(str(run_id) for run_id in sorted(ended)))
