"""The dispatcher of deliveries: has what waits sent in batches, of all endpoints together."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

import logs
from activities.halting import Halt
from activities.loop_lag import LoopLag
from database import Connection, Database
from dispatch_loop import ASK_SECONDS, DispatchLoop
from models import delivery_recovery, delivery_work, workers
from models.endpoints import CHANGED_CHANNEL
from models.events import QUEUED_CHANNEL
from models.identifiers import new_id
from temporal import starts
from temporal.client import TEMPORAL_AWAY

_log = logs.get(__name__)
# Fewer than there are places for outgoing calls: hanging endpoints never take them all.
_ROWS_PER_WORKER = 384
# How long the next claim waits, after a full one and after any: so batches grow under load.
_FULL_ROWS, _FULL_PAUSE, _PAUSE = 64, 0.06, 0.005
_FREED_PAUSE = 0.025
# While a batch of this process waits to be sent, the next claim waits as after a full one; while so many do,
# it waits for them: or else more and more workflows stand in Temporal's queue, with few deliveries each. One
# that is older does not count.
_UNSENT_BATCHES, _UNSENT_SECONDS, _UNSENT_PAUSE = 8, 15.0, 0.025


class DeliveryDispatcher(DispatchLoop):
    """Claims and starts deliveries; one in each worker process, any number of them side by side."""

    def __init__(
        self, database: Database, client: Client, halt: Halt, lag: LoopLag, *, eager: bool = True
    ) -> None:
        """Prepare.

        Args:
            database: where deliveries wait.
            client: the worker's own, so that the workflow of a batch can run here at once (eager start).
            halt: says whether this process may claim.
            lag: of the event loop; while it is too long, nothing is claimed.
            eager: off with worker versioning, which an eager start would bypass.
        """
        handlers = {QUEUED_CHANNEL: self._heard, CHANGED_CHANNEL: self._heard}
        super().__init__(database, handlers, "delivery dispatcher")
        self._client = client
        self._halt = halt
        self._lag = lag
        self._eager = eager
        self._workers = 1
        # When each batch was claimed that nobody had begun to send when this was last looked at.
        self._unsent: dict[UUID, float] = {}
        self._claimed_at = 0.0

    def freed(self) -> None:
        """There is room for more: look soon, once for all that is freed meanwhile."""
        if self._held_back:
            self._held_back = False
            asyncio.get_running_loop().call_later(_FREED_PAUSE, self._wake.set)

    async def _claim_all(self) -> float:
        loop = asyncio.get_running_loop()
        self._held_back = False
        while not self._stopping:
            if (full_until := self._starts_full_until()) is not None:
                return full_until
            if self._lag.is_too_long or self._halt.halted:
                return float("inf")
            batch_id = new_id()
            async with self._database.connection() as connection:
                if (seconds := await self._seconds_to_wait(connection)) > 0:
                    return loop.time() + seconds
                window = _ROWS_PER_WORKER * max(1, self._workers)
                claim = await delivery_work.claim(connection, batch_id, window=window)
            if claim is None:
                return float("inf")
            if not claim.claimed:
                self._held_back = True
                return float("inf") if claim.seconds is None else loop.time() + claim.seconds
            self._unsent[batch_id] = self._claimed_at = loop.time()
            self._spawn_start(str(batch_id), self.begin(batch_id, claim.claimed))
            await asyncio.sleep(_FULL_PAUSE if claim.claimed >= _FULL_ROWS else _PAUSE)
        return float("inf")

    async def _seconds_to_wait(self, connection: Connection) -> float:
        """How long what has come is to wait for more, to go with it: not at all if no batch is unsent."""
        if not self._unsent:
            return 0.0
        now = asyncio.get_running_loop().time()
        unsent = await delivery_work.find_unsent(connection, list(self._unsent))
        self._unsent = {
            one: at for one, at in self._unsent.items() if one in unsent and at > now - _UNSENT_SECONDS
        }
        if len(self._unsent) >= _UNSENT_BATCHES:
            return _UNSENT_PAUSE
        return self._claimed_at + _FULL_PAUSE - now if self._unsent else 0.0

    async def begin(self, batch_id: UUID, deliveries: int) -> None:
        """Start the workflow of a batch. Should that fail, a sweep repeats it."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await starts.start_deliveries(self._client, batch_id, deliveries, eager=self._eager)
        except WorkflowAlreadyStartedError:
            await self._examine(batch_id)
        except TEMPORAL_AWAY as error:
            _log.warning("start_failed", batch_id=str(batch_id), deliveries=deliveries, error=str(error))
        else:
            await self._mark_started(batch_id)

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            self._workers = await workers.alive(connection)
            unseen = await delivery_work.BATCHES.find_unseen(connection)
            await delivery_recovery.queue_overdue(connection)
        for batch_id, deliveries in unseen:
            self._begin_chore(str(batch_id), self.begin(batch_id, deliveries))

    async def _examine(self, batch_id: UUID) -> None:
        """See whether the workflow of a batch goes on; else give back what is left."""
        handle = self._client.get_workflow_handle(starts.delivery_workflow_id(batch_id))
        description = await handle.describe(rpc_timeout=timedelta(seconds=ASK_SECONDS))
        if description.status is WorkflowExecutionStatus.RUNNING:
            await self._mark_started(batch_id)
            return
        async with self._database.connection() as connection:
            deliveries = await delivery_recovery.give_back(connection, batch_id)
        if deliveries:
            _log.warning("batch_given_back", batch_id=str(batch_id), deliveries=deliveries)
            self._wake.set()

    async def _mark_started(self, batch_id: UUID) -> None:
        async with self._database.connection() as connection:
            await delivery_work.BATCHES.mark_begun(connection, batch_id)
