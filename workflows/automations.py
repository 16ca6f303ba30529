"""`AutomationBatch`: runs that were claimed together. What they do is told by their rows."""

from __future__ import annotations

from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows.batches import see_to
    from workflows.messages import ADVANCE_RUNS, AUTOMATION_BATCH, QUEUE_DUE


@workflow.defn(name=AUTOMATION_BATCH)
class AutomationBatch:
    """Takes the runs of a batch forward until each has ended or only waits, then queues what is due."""

    @workflow.run
    async def run(self, batch_id: UUID) -> None:
        """Do so until no run of the batch waits."""
        await see_to(batch_id, ADVANCE_RUNS, QUEUE_DUE)
