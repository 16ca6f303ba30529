"""`DeliveryBatch`: deliveries that were claimed together. What became of them is told by their rows."""

from __future__ import annotations

from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows.batches import see_to
    from workflows.messages import DELIVERY_BATCH, QUEUE_DUE_DELIVERIES, SEND_DELIVERIES


@workflow.defn(name=DELIVERY_BATCH)
class DeliveryBatch:
    """Sends the deliveries of a batch, then queues those whose next attempt is due."""

    @workflow.run
    async def run(self, batch_id: UUID) -> None:
        """Do so until no delivery of the batch waits."""
        await see_to(batch_id, SEND_DELIVERIES, QUEUE_DUE_DELIVERIES)
