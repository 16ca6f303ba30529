"""The activities of a batch of deliveries: sending them side by side, and queueing those that are due."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

import psycopg
from temporalio import activity
from temporalio.exceptions import ApplicationError

import logs
from database import AWAY, Database, Notifier
from execution.heartbeat import heartbeats
from execution.ownership import check_workflow
from micro_batcher import MicroBatcher
from models.events.events import QUEUED_CHANNEL
from models.identifiers import new_id
from models.webhooks import delivery_work, delivery_writes
from models.webhooks.delivery_work import Delivery
from models.webhooks.delivery_writes import Change
from outbound.client import Outbound
from outbound.lease import LeaseLost
from sealing import Keyring
from services import delivery_attempts
from temporal.starts import delivery_workflow_id
from workflows.messages import QUEUE_DUE_DELIVERIES, SEND_DELIVERIES

_log = logs.get(__name__)
_IN_FLIGHT = 2
# A row that somebody else has locked is found out, and who stops within a write: neither holds up others.
OPTIONS = "-c lock_timeout=1s -c idle_in_transaction_session_timeout=5s"
"""Of the connections that write what attempts brought."""
_AGAIN_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)


class DeliveryActivities:
    """What the workflow of a batch of deliveries has done.

    What attempts brought is written through connections of its own: whatever else the worker does with the
    database, this goes on.

    Attributes:
        writer: the pool of these connections.
    """

    def __init__(
        self,
        database: Database,
        notifier: Notifier,
        outbound: Outbound,
        keyring: Keyring,
        schedule: Sequence[float],
        freed: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            database: where deliveries are.
            notifier: tells dispatchers of those that were queued.
            outbound: the guarded clients.
            keyring: opens the secrets of endpoints.
            schedule: the delays between attempts, in seconds.
            freed: is called when deliveries are at work no longer.
        """
        self._database = database
        self._notifier = notifier
        self._outbound = outbound
        self._keyring = keyring
        self._schedule = schedule
        self._freed = freed
        self.writer = Database(database.url, name="vedette deliveries", size=_IN_FLIGHT, options=OPTIONS)
        self._batcher = MicroBatcher(
            self._record_many,
            size=lambda change: change.size,
            most=delivery_work.MAX_ROWS,
            in_flight=_IN_FLIGHT,
        )

    async def open(self) -> None:
        """Connect."""
        await self.writer.open()

    async def close(self) -> None:
        """Disconnect."""
        await self.writer.close()

    @activity.defn(name=SEND_DELIVERIES)
    async def send_deliveries(self, batch_id: UUID) -> float | None:
        """Send what of the batch is to be sent, all side by side.

        A worker that dies between a request and its record leaves the delivery at work: the next attempt at
        this activity sends it again, with the same `webhook-id`.

        Returns:
            The seconds until the first is due again; None if none is.
        """
        check_workflow(delivery_workflow_id(batch_id))
        async with heartbeats():
            executor = new_id()
            async with self._database.connection() as connection:
                deliveries = await delivery_work.take(connection, batch_id, executor)
            sent = (self._deliver(batch_id, executor, delivery) for delivery in deliveries)
            errors = await asyncio.gather(*sent, return_exceptions=True)
            for error in errors:
                if isinstance(error, Exception) and not isinstance(error, LeaseLost):
                    # It stays at work, until a sweep finds that its workflow is over and gives it back.
                    _log.error("delivery_dropped", batch_id=str(batch_id), exc_info=error)
            if any(isinstance(error, LeaseLost) for error in errors):
                # The next attempt at this activity sends them.
                raise ApplicationError("This worker has not reached the database lately.", type="no_beat")
            async with self._database.connection() as connection:
                return rounded(await delivery_work.look(connection, batch_id))

    @activity.defn(name=QUEUE_DUE_DELIVERIES)
    async def queue_due_deliveries(self, batch_id: UUID) -> float | None:
        """Queue the deliveries whose next attempt is due.

        Returns:
            The seconds until the next is due; None if none waits.
        """
        check_workflow(delivery_workflow_id(batch_id))
        async with self._database.connection() as connection:
            queued, seconds = await delivery_work.queue_due(connection, batch_id)
        if queued:
            self._notifier.notify(QUEUED_CHANNEL)
        return rounded(seconds)

    async def _deliver(self, batch_id: UUID, executor: UUID, delivery: Delivery) -> None:
        attempt = await delivery_attempts.attempt(self._outbound, self._keyring, delivery)
        # A test that somebody sends again is not repeated either.
        schedule = () if delivery.event_type == "webhook.test" else self._schedule
        decision = delivery_attempts.decide_next(attempt, delivery.tries, schedule)
        change = Change(batch_id, executor, delivery.delivery_id, attempt, *decision)
        if not await self._record(change):
            _log.warning("delivery_lost", delivery_id=str(delivery.delivery_id), batch_id=str(batch_id))
        self._freed()

    async def _record(self, change: Change) -> bool:
        """Write what an attempt brought; while the database is away, wait. Says whether it still counted."""
        tries = 0
        while True:
            try:
                return await self._batcher.submit(change)
            except psycopg.DataError as error:
                if change.attempt.response_body is None:
                    raise
                _log.error("answer_not_stored", delivery_id=str(change.delivery_id), error=str(error))
                change = replace(change, attempt=replace(change.attempt, response_body=None))
            except AWAY as error:
                _log.info("recording_waits", delivery_id=str(change.delivery_id), error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS[min(tries, len(_AGAIN_SECONDS) - 1)])
                tries += 1

    async def _record_many(self, changes: list[Change]) -> list[bool | Exception]:
        async with self.writer.transaction() as connection:
            written = await delivery_writes.record_attempts_if_leased(connection, changes)
        return [change.delivery_id in written for change in changes]


def rounded(seconds: float | None) -> float | None:
    """Round up to a quarter of a second, above a minute to a second: what is due together wakes together."""
    if seconds is None:
        return None
    return float(math.ceil(seconds)) if seconds > 60 else math.ceil(seconds * 4) / 4
