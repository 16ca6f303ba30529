"""`DeliveryBatch`: deliveries that were claimed together. Results are read from Postgres."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import DELIVERY_BATCH, QUEUE_DUE_DELIVERIES, SEND_DELIVERIES, WAKING_QUEUE

_LEAST_SECONDS = 0.25


@workflow.defn(name=DELIVERY_BATCH)
class DeliveryBatch:
    """Sends the deliveries of a batch, then queues those whose next attempt is due."""

    @workflow.run
    async def run(self, batch_id: UUID) -> None:
        """Work until none of its deliveries waits. Both activities return the seconds until one is due."""
        left: float | None = await workflow.execute_activity(SEND_DELIVERIES, batch_id, **policies.LONG)
        waking = policies.QUICK | workflow.ActivityConfig(task_queue=WAKING_QUEUE)
        while left is not None:
            await workflow.sleep(timedelta(seconds=max(_LEAST_SECONDS, left)))
            left = await workflow.execute_activity(QUEUE_DUE_DELIVERIES, batch_id, **waking)
