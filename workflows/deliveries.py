"""`DeliveryBatch`: deliveries that were claimed together. Results are read from Postgres."""

from __future__ import annotations

from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows.batches import advance_until_done
    from workflows.messages import DELIVERY_BATCH, QUEUE_DUE_DELIVERIES, SEND_DELIVERIES


@workflow.defn(name=DELIVERY_BATCH)
class DeliveryBatch:
    """Sends the deliveries of a batch, then queues those whose next attempt is due."""

    @workflow.run
    async def run(self, batch_id: UUID) -> None:
        """Advance the batch until none of its deliveries waits."""
        await advance_until_done(batch_id, SEND_DELIVERIES, QUEUE_DUE_DELIVERIES)
