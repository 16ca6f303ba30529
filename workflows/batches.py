"""What the workflow of every batch does: have the work done, then wake what waits when it is due."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import WAKING_QUEUE

_LEAST_SECONDS = 0.25


async def see_to(batch_id: UUID, advance: str, queue_due: str) -> None:
    """Do so until nothing of the batch waits.

    Args:
        batch_id: of the batch.
        advance: the activity that does the work; it gives the seconds until something is due, or None.
        queue_due: the activity that queues what is due; it gives the same.
    """
    left: float | None = await workflow.execute_activity(
        advance,
        batch_id,
        start_to_close_timeout=policies.AN_HOUR,
        heartbeat_timeout=policies.HEARTBEAT,
        retry_policy=policies.FOR_EVER,
    )
    while left is not None:
        await workflow.sleep(timedelta(seconds=max(_LEAST_SECONDS, left)))
        left = await workflow.execute_activity(
            queue_due,
            batch_id,
            task_queue=WAKING_QUEUE,
            start_to_close_timeout=policies.SHORT,
            retry_policy=policies.FOR_EVER,
        )
