"""Starting the workflow of a batch: the one place that says how."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
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
from workflows.messages import (
    AUTOMATION_BATCH,
    BULK_JOB,
    DELIVERY_BATCH,
    MONITOR_RUN,
    BulkJobInput,
    MonitorRunInput,
)

ACCOUNT = SearchAttributeKey.for_keyword("VedetteAccount")
KIND = SearchAttributeKey.for_keyword("VedetteKind")
DEFINITION = SearchAttributeKey.for_keyword("VedetteDefinition")
TRIGGER = SearchAttributeKey.for_keyword("VedetteTrigger")

# A task that its worker has lost, on the way or by dying, goes to another one after this.
_TASK_TIMEOUT = timedelta(seconds=10)
_DELIVERY_PRIORITY = 3
_MONITOR_PRIORITY = 4
_JOB_PRIORITY = 5


def workflow_id(batch_id: UUID | str) -> str:
    """The id of the workflow of a batch of runs."""
    return f"automation/{batch_id}"


def delivery_workflow_id(batch_id: UUID) -> str:
    """The id of the workflow of a batch of deliveries."""
    return f"delivery/{batch_id}"


def monitor_workflow_id(run_id: UUID) -> str:
    """The id of the workflow of a monitor's run."""
    return f"monitor-run/{run_id}"


def job_workflow_id(job_id: UUID) -> str:
    """The id of the workflow of a bulk job."""
    return f"bulk-job/{job_id}"


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
    """Start the workflow of a batch of runs, once for its id. All else is for those who look for it.

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
    attributes = [
        SearchAttributePair(ACCOUNT, str(account_id)),
        SearchAttributePair(KIND, "automation"),
        SearchAttributePair(DEFINITION, str(automation_id)),
        SearchAttributePair(TRIGGER, trigger),
    ]
    await _start(
        client,
        AUTOMATION_BATCH,
        batch_id,
        workflow_id(batch_id),
        Priority(priority_key=priority, fairness_key=str(account_id)),
        attributes,
        f"{runs} runs of version {version}",
        eager,
    )


async def start_deliveries(client: Client, batch_id: UUID, deliveries: int, *, eager: bool = False) -> None:
    """Start the workflow of a batch of deliveries; as `start`."""
    await _start(
        client,
        DELIVERY_BATCH,
        batch_id,
        delivery_workflow_id(batch_id),
        Priority(priority_key=_DELIVERY_PRIORITY),
        [SearchAttributePair(KIND, "delivery")],
        f"{deliveries} deliveries",
        eager,
    )


async def start_monitor_run(
    client: Client,
    given: MonitorRunInput,
    account_id: UUID,
    monitor_id: UUID,
    targets: int,
    *,
    eager: bool = False,
) -> None:
    """Start the workflow of a monitor's run; as `start`."""
    await _start(
        client,
        MONITOR_RUN,
        given,
        monitor_workflow_id(given.run_id),
        Priority(priority_key=_MONITOR_PRIORITY, fairness_key=str(account_id)),
        [
            SearchAttributePair(ACCOUNT, str(account_id)),
            SearchAttributePair(KIND, "monitor"),
            SearchAttributePair(DEFINITION, str(monitor_id)),
        ],
        f"{targets} targets",
        eager,
    )


async def start_job(
    client: Client, given: BulkJobInput, account_id: UUID, queries: int, *, eager: bool = False
) -> None:
    """Start the workflow of a bulk job; as `start`."""
    await _start(
        client,
        BULK_JOB,
        given,
        job_workflow_id(given.job_id),
        Priority(priority_key=_JOB_PRIORITY, fairness_key=str(account_id)),
        [SearchAttributePair(ACCOUNT, str(account_id)), SearchAttributePair(KIND, "job")],
        f"{queries} lookups",
        eager,
    )


async def _start(
    client: Client,
    workflow: str,
    argument: UUID | MonitorRunInput | BulkJobInput,
    id: str,
    priority: Priority,
    attributes: list[SearchAttributePair[Any]],
    summary: str,
    eager: bool,
) -> None:
    await client.start_workflow(
        workflow,
        argument,
        id=id,
        task_queue=TASK_QUEUE,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        task_timeout=_TASK_TIMEOUT,
        request_eager_start=eager,
        priority=priority,
        search_attributes=TypedSearchAttributes(attributes),
        static_summary=summary,
    )
