"""The dispatcher of deliveries: claims waiting deliveries in batches, of all endpoints together."""

from __future__ import annotations

import asyncio
from uuid import UUID

import logs
from database import Connection
from dispatch.loop import DispatchServices, WorkflowLoop
from models.events.events import QUEUED_CHANNEL
from models.identifiers import new_id
from models.runs import workers
from models.webhooks import delivery_recovery, delivery_work
from models.webhooks.delivery_work import Batch
from models.webhooks.endpoints import CHANGED_CHANNEL
from temporal import starts

_log = logs.get(__name__)
# Fewer than the places for outgoing calls, so that hanging endpoints never take all of them.
_ROWS_PER_WORKER = 384
# The pauses after a full claim and after any claim: so batches grow under load.
_FULL_ROWS, _FULL_PAUSE, _PAUSE = 64, 0.06, 0.005
_FREED_PAUSE = 0.025
# While a batch of this process waits to be sent, the next claim waits as after a full one. While this many
# wait, the next claim waits for them: otherwise more and more workflows with few deliveries each would stand
# in Temporal's queue. Older batches do not count.
_UNSENT_BATCHES, _UNSENT_SECONDS, _UNSENT_PAUSE = 8, 15.0, 0.025


class DeliveryDispatcher(WorkflowLoop[Batch]):
    """Claims deliveries and starts their batches; one in each worker process, in parallel with others."""

    def __init__(self, services: DispatchServices) -> None:
        channels, name = (QUEUED_CHANNEL, CHANGED_CHANNEL), "delivery dispatcher"
        super().__init__(services, channels, name, delivery_work.BATCHES)
        self._workers = 1
        # The time of the claim of each batch that was unsent at the last check.
        self._unsent: dict[UUID, float] = {}
        self._claimed_at = 0.0

    def on_capacity_freed(self) -> None:
        """Claim again soon, because there is room; one claim for all room that appears meanwhile."""
        if self._held_back:
            self._held_back = False
            asyncio.get_running_loop().call_later(_FREED_PAUSE, self._wake.set)

    async def _claim_all(self) -> float:
        loop = asyncio.get_running_loop()
        self._held_back = False
        while not self._stopping:
            if (full_until := self._starts_full_until()) is not None:
                return full_until
            if not self._may_claim:
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
            self._spawn_start(str(batch_id), self.begin(Batch(batch_id, claim.claimed)))
            await asyncio.sleep(_FULL_PAUSE if claim.claimed >= _FULL_ROWS else _PAUSE)
        return float("inf")

    async def _seconds_to_wait(self, connection: Connection) -> float:
        """Return how long new deliveries wait for others to join them: not at all if no batch is unsent."""
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

    def _id(self, claimed: Batch) -> UUID:
        return claimed.id

    def _workflow_id(self, claimed: Batch) -> str:
        return starts.delivery_workflow_id(claimed.id)

    def _log_fields(self, claimed: Batch) -> dict[str, object]:
        return {"batch_id": str(claimed.id), "deliveries": claimed.deliveries}

    async def _start(self, claimed: Batch) -> None:
        await starts.start_deliveries(self._client, *claimed, eager=self._eager)

    async def _give_back(self, claimed: Batch, status: str) -> None:
        """Queue its remaining deliveries, to be claimed in other batches."""
        async with self._database.connection() as connection:
            deliveries = await delivery_recovery.requeue_batch(connection, claimed.id)
        if deliveries:
            _log.warning("batch_given_back", batch_id=str(claimed.id), deliveries=deliveries)
            self._wake.set()

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            self._workers = await workers.count_alive(connection)
            await delivery_recovery.queue_overdue(connection)
        await super()._sweep()
