"""The activities of a batch: taking its runs forward, and queueing those whose wait is over."""

from __future__ import annotations

import math
from uuid import UUID

from temporalio import activity

from activities.executor import Executor
from activities.heartbeat import heartbeats
from database import Database, Notifier
from models import run_work
from models.runs import QUEUED_CHANNEL
from workflows.messages import ADVANCE_RUNS, QUEUE_DUE


class RunActivities:
    """What the workflow of a batch has done."""

    def __init__(self, database: Database, notifier: Notifier, executor: Executor) -> None:
        self._database = database
        self._notifier = notifier
        self._executor = executor

    @activity.defn(name=ADVANCE_RUNS)
    async def advance_runs(self, batch_id: UUID) -> float | None:
        """Wait until every run of the batch has ended or only waits; if its executor is lost, take over.

        Returns:
            The seconds until the first goes on; None if none waits.
        """
        async with heartbeats():
            return rounded(await self._executor.advance(batch_id))

    @activity.defn(name=QUEUE_DUE)
    async def queue_due(self, batch_id: UUID) -> float | None:
        """Queue the runs whose wait is over.

        Returns:
            The seconds until the next is due; None if none waits.
        """
        async with self._database.connection() as connection:
            queued, seconds = await run_work.queue_due(connection, batch_id)
        if queued:
            self._notifier.notify(QUEUED_CHANNEL)
        return rounded(seconds)


def rounded(seconds: float | None) -> float | None:
    """Round up to a quarter of a second, above a minute to a second: what is due together wakes together."""
    if seconds is None:
        return None
    return float(math.ceil(seconds)) if seconds > 60 else math.ceil(seconds * 4) / 4
