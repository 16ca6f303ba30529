"""The workflow of every batch: it executes the work, then wakes waiting entries when they are due."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import WAKING_QUEUE

_LEAST_SECONDS = 0.25


async def advance_until_done(batch_id: UUID, advance: str, queue_due: str) -> None:
    """Advance the batch until none of its entries waits.

    Args:
        batch_id: the batch.
        advance: the activity that does the work; it returns the seconds until an entry is due, or None.
        queue_due: the activity that queues due entries; it returns the same.
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
