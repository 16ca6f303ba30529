"""Starting a batch: the one place that says how."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)

from temporal.client import TASK_QUEUE
from workflows.messages import AUTOMATION_BATCH, Batch

ACCOUNT = SearchAttributeKey.for_keyword("VedetteAccount")
KIND = SearchAttributeKey.for_keyword("VedetteKind")
DEFINITION = SearchAttributeKey.for_keyword("VedetteDefinition")
TRIGGER = SearchAttributeKey.for_keyword("VedetteTrigger")

# A task that its worker has lost, on the way or by dying, goes to another one after this. It is long enough
# for a dozen replays at once after a restart.
_TASK_TIMEOUT = timedelta(seconds=10)


def workflow_id(batch: Batch) -> str:
    """The id of a batch's workflow."""
    return f"automation/{batch.batch_id}"


async def start(
    client: Client, batch: Batch, *, eager: bool = False, start_delay: timedelta | None = None
) -> None:
    """Start a batch, once for its id.

    Args:
        client: for an eager start that of the worker, so that the batch can run there at once.
        batch: complete, or without a definition if it is to take up its runs when it starts.
        eager: run its first task here, if there is room.
        start_delay: after which it starts.

    Raises:
        WorkflowAlreadyStartedError: it has been started before, whatever became of it.
        temporalio.service.RPCError: the server is away.
    """
    await client.start_workflow(
        AUTOMATION_BATCH,
        batch,
        id=workflow_id(batch),
        task_queue=TASK_QUEUE,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        task_timeout=_TASK_TIMEOUT,
        request_eager_start=eager,
        start_delay=start_delay,
        priority=Priority(priority_key=batch.priority, fairness_key=str(batch.account_id)),
        search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(ACCOUNT, str(batch.account_id)),
                SearchAttributePair(KIND, "automation"),
                SearchAttributePair(DEFINITION, str(batch.automation_id)),
                SearchAttributePair(TRIGGER, batch.trigger),
            ]
        ),
        static_summary=f"{len(batch.rows) or 'some'} runs of version {batch.version}",
    )
