"""The activities of a batch of deliveries: sending them in parallel, and queueing those that are due."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import psycopg
from temporalio import activity
from temporalio.exceptions import ApplicationError

import logs
import metrics
import tracing
from database import AWAY, Database
from execution.heartbeat import heartbeats
from execution.ownership import check_workflow
from micro_batcher import MicroBatcher
from models.events.events import QUEUED_CHANNEL
from models.identifiers import new_id
from models.webhooks import delivery_work, delivery_writes
from models.webhooks.delivery_work import Delivery
from models.webhooks.delivery_writes import Change
from notifications import Notifier
from outbound.client import Outbound
from outbound.lease import LeaseLost
from sealing import Keyring
from services import delivery_attempts
from temporal.starts import delivery_workflow_id
from workflows.messages import QUEUE_DUE_DELIVERIES, SEND_DELIVERIES

_log = logs.get(__name__)
_IN_FLIGHT = 2
# The timeouts find a row that is locked elsewhere, and a process that stops within a write, so that neither
# delays others.
PARAMETERS = {"lock_timeout": "1s", "idle_in_transaction_session_timeout": "5s"}
"""The options of the connections that record attempts."""
_AGAIN_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)


class DeliveryActivities:
    """The activities of a batch of deliveries.

    Attempts are recorded through connections of their own, so that this works even if the rest of the worker
    uses up the others.

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
        on_capacity_freed: Callable[[], None],
    ) -> None:
        """Create the activities.

        Args:
            database: the database with the deliveries.
            notifier: notifies dispatchers of queued deliveries.
            outbound: the guarded clients.
            keyring: opens the secrets of endpoints.
            schedule: the delays between attempts, in seconds.
            on_capacity_freed: called when a delivery is no longer at work.
        """
        self._database = database
        self._notifier = notifier
        self._outbound = outbound
        self._keyring = keyring
        self._schedule = schedule
        self._on_capacity_freed = on_capacity_freed
        self.writer = Database(
            database.url, name="vedette deliveries", size=_IN_FLIGHT, parameters=PARAMETERS
        )
        self._batcher = MicroBatcher(
            self._record_many,
            size=lambda change: change.size,
            most=delivery_work.MAX_ROWS,
            in_flight=_IN_FLIGHT,
        )

    @activity.defn(name=SEND_DELIVERIES)
    async def send_deliveries(self, batch_id: UUID) -> float | None:
        """Send the deliveries of the batch in parallel.

        If a worker dies between a request and its record, the delivery stays at work: the next attempt at
        this activity sends it again, with the same `webhook-id`.

        Returns:
            The seconds until the first is due again; None if none is.
        """
        check_workflow(delivery_workflow_id(batch_id))
        async with heartbeats():
            executor = new_id()
            async with self._database.connection() as connection:
                deliveries = await delivery_work.take_batch(connection, batch_id, executor)
            sent = (self._deliver(batch_id, executor, delivery) for delivery in deliveries)
            errors = await asyncio.gather(*sent, return_exceptions=True)
            for error in errors:
                if isinstance(error, Exception) and not isinstance(error, LeaseLost):
                    # It stays at work, until a sweep finds that its workflow has closed and queues it.
                    _log.error("delivery_dropped", batch_id=str(batch_id), exc_info=error)
            if any(isinstance(error, LeaseLost) for error in errors):
                # The next attempt at this activity sends them.
                raise ApplicationError("This worker has not reached the database lately.", type="no_beat")
            async with self._database.connection() as connection:
                return round_up(await delivery_work.get_batch_state(connection, batch_id))

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
        return round_up(seconds)

    async def _deliver(self, batch_id: UUID, executor: UUID, delivery: Delivery) -> None:
        tracing.trace_work(delivery.origin, delivery.run_id)
        attempt = await delivery_attempts.attempt(self._outbound, self._keyring, delivery)
        # A test that is resent by hand is not repeated either.
        schedule = () if delivery.event_type == "webhook.test" else self._schedule
        decision = delivery_attempts.decide_next(attempt, delivery.tries, schedule)
        change = Change(batch_id, executor, delivery.delivery_id, attempt, *decision)
        if not await self._record(change):
            _log.warning("delivery_lost", delivery_id=str(delivery.delivery_id), batch_id=str(batch_id))
        metrics.DELIVERY.observe(attempt.duration_ms / 1000, decision.ending)
        if decision.ending != "retry":
            age = datetime.now(UTC) - delivery.created_at
            metrics.DELIVERY_AGE.observe(age.total_seconds(), decision.ending)
            endpoint = str(delivery.endpoint_id)
            metrics.count_for(delivery.account_id, "deliveries", endpoint, decision.ending)
        self._on_capacity_freed()

    async def _record(self, change: Change) -> bool:
        """Record an attempt; wait while the database is away. Return whether the batch was still ours."""
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


def round_up(seconds: float | None) -> float | None:
    """Round up to a quarter of a second, above a minute to a second, so that deliveries wake together."""
    if seconds is None:
        return None
    return float(math.ceil(seconds)) if seconds > 60 else math.ceil(seconds * 4) / 4
