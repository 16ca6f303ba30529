"""`AutomationBatch`: runs that were claimed together. What they do is told by their rows."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import ADVANCE_RUNS, AUTOMATION_BATCH, QUEUE_DUE, WAKING_QUEUE

_LEAST_SECONDS = 0.25


@workflow.defn(name=AUTOMATION_BATCH)
class AutomationBatch:
    """Takes the runs of a batch forward until each has ended or only waits, then queues what is due."""

    @workflow.run
    async def run(self, batch_id: UUID) -> None:
        """Do so until no run of the batch waits."""
        left: float | None = await workflow.execute_activity(
            ADVANCE_RUNS,
            batch_id,
            start_to_close_timeout=policies.AN_HOUR,
            heartbeat_timeout=policies.HEARTBEAT,
            retry_policy=policies.FOR_EVER,
        )
        while left is not None:
            await workflow.sleep(timedelta(seconds=max(_LEAST_SECONDS, left)))
            left = await workflow.execute_activity(
                QUEUE_DUE,
                batch_id,
                task_queue=WAKING_QUEUE,
                start_to_close_timeout=policies.SHORT,
                retry_policy=policies.FOR_EVER,
            )
