"""Starting the workflow of a batch: the one place that says how."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from temporalio.client import Client
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)

from temporal.client import TASK_QUEUE
from workflows.messages import AUTOMATION_BATCH

ACCOUNT = SearchAttributeKey.for_keyword("VedetteAccount")
KIND = SearchAttributeKey.for_keyword("VedetteKind")
DEFINITION = SearchAttributeKey.for_keyword("VedetteDefinition")
TRIGGER = SearchAttributeKey.for_keyword("VedetteTrigger")

# A task that its worker has lost, on the way or by dying, goes to another one after this.
_TASK_TIMEOUT = timedelta(seconds=10)


def workflow_id(batch_id: UUID | str) -> str:
    """The id of a batch's workflow."""
    return f"automation/{batch_id}"


async def start(
    client: Client,
    *,
    batch_id: UUID,
    account_id: UUID,
    automation_id: UUID,
    version: int,
    priority: int,
    runs: int,
    trigger: str,
    eager: bool = False,
) -> None:
    """Start the workflow of a batch, once for its id. All else is for those who look for it.

    Args:
        client: for an eager start that of the worker, so that the workflow can run there at once.
        batch_id: of the batch.
        account_id: whose runs they are.
        automation_id: the workflow that they run.
        version: of that.
        priority: of the lane that they come from.
        runs: how many.
        trigger: what started them.
        eager: run its first task here, if there is room.

    Raises:
        WorkflowAlreadyStartedError: it has been started before, whatever became of it.
        temporalio.service.RPCError: the server is away.
    """
    await client.start_workflow(
        AUTOMATION_BATCH,
        batch_id,
        id=workflow_id(batch_id),
        task_queue=TASK_QUEUE,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        task_timeout=_TASK_TIMEOUT,
        request_eager_start=eager,
        priority=Priority(priority_key=priority, fairness_key=str(account_id)),
        search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(ACCOUNT, str(account_id)),
                SearchAttributePair(KIND, "automation"),
                SearchAttributePair(DEFINITION, str(automation_id)),
                SearchAttributePair(TRIGGER, trigger),
            ]
        ),
        static_summary=f"{runs} runs of version {version}",
    )
