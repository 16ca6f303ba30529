"""The starts of workflows: their ids, options and search attributes in one place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from temporalio.client import Client
from temporalio.common import (
    Priority,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)

from temporal.attributes import ACCOUNT, DEFINITION, KIND, PARENT, TRIGGER, VERSION
from temporal.client import TASK_QUEUE
from workflows.messages import (
    AUTOMATION_RUN,
    BULK_JOB,
    DELIVERY_BATCH,
    MONITOR_RUN,
    TAKEN_UP,
    BulkJobInput,
    MonitorRunInput,
    OwnRun,
)

# A task that its worker has lost, in transit or by dying, goes to another worker after this time.
_TASK_TIMEOUT = timedelta(seconds=10)
_DELIVERY_PRIORITY = 3
_MONITOR_PRIORITY = 4
_JOB_PRIORITY = 5
# The options of a workflow that is started once for its id.
_ONCE: dict[str, Any] = {
    "task_queue": TASK_QUEUE,
    "task_timeout": _TASK_TIMEOUT,
    "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
}


def run_workflow_id(run_id: UUID) -> str:
    """Return the id of the workflow of a run."""
    return f"run/{run_id}"


def delivery_workflow_id(batch_id: UUID) -> str:
    """Return the id of the workflow of a batch of deliveries."""
    return f"delivery/{batch_id}"


def monitor_workflow_id(run_id: UUID) -> str:
    """Return the id of the workflow of a monitor's run."""
    return f"monitor-run/{run_id}"


def job_workflow_id(job_id: UUID) -> str:
    """Return the id of the workflow of a bulk job."""
    return f"bulk-job/{job_id}"


@dataclass(frozen=True, slots=True)
class RunLabels:
    """The values by which searches in Temporal find the workflow of a run, and its priority there.

    Attributes:
        account_id: the owner of the run.
        automation_id: the workflow that it executes.
        version: the version of that.
        trigger: the type of its trigger.
        priority: with which it was claimed.
        parent_run_id: the run whose step this run is.
    """

    account_id: UUID
    automation_id: UUID
    version: int
    trigger: str
    priority: int
    parent_run_id: UUID | None


async def start_run(client: Client, given: OwnRun, labels: RunLabels) -> None:
    """Start the workflow of a run, or signal the run's next claim to the one that waits.

    Args:
        client: any.
        given: the run and its claim.
        labels: for searches.

    Raises:
        temporalio.service.RPCError: the server is away.
    """
    attributes: list[SearchAttributePair[Any]] = [
        SearchAttributePair(ACCOUNT, str(labels.account_id)),
        SearchAttributePair(KIND, "run"),
        SearchAttributePair(DEFINITION, str(labels.automation_id)),
        SearchAttributePair(TRIGGER, labels.trigger),
        SearchAttributePair(VERSION, labels.version),
    ]
    if labels.parent_run_id is not None:
        attributes.append(SearchAttributePair(PARENT, str(labels.parent_run_id)))
    await client.start_workflow(
        AUTOMATION_RUN,
        given,
        id=run_workflow_id(given.run_id),
        task_queue=TASK_QUEUE,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        task_timeout=_TASK_TIMEOUT,
        priority=Priority(priority_key=min(labels.priority, 5), fairness_key=str(labels.account_id)),
        search_attributes=TypedSearchAttributes(attributes),
        static_summary=f"run of version {labels.version}, {labels.trigger}",
        start_signal=TAKEN_UP,
        start_signal_args=[given],
    )


async def start_deliveries(client: Client, batch_id: UUID, deliveries: int, *, eager: bool = False) -> None:
    """Start the workflow of a batch of deliveries, once for its id.

    Args:
        client: for an eager start the worker's, so that the workflow can run there at once.
        batch_id: the batch.
        deliveries: the number of deliveries, only for searches.
        eager: whether to run its first task here, if there is room.

    Raises:
        WorkflowAlreadyStartedError: it was started before, in any state.
        temporalio.service.RPCError: the server is away.
    """
    await client.start_workflow(
        DELIVERY_BATCH,
        batch_id,
        id=delivery_workflow_id(batch_id),
        request_eager_start=eager,
        priority=Priority(priority_key=_DELIVERY_PRIORITY),
        search_attributes=TypedSearchAttributes([SearchAttributePair(KIND, "delivery")]),
        static_summary=f"{deliveries} deliveries",
        **_ONCE,
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
    """Start the workflow of a monitor's run; as `start_deliveries`."""
    attributes = [
        SearchAttributePair(ACCOUNT, str(account_id)),
        SearchAttributePair(KIND, "monitor"),
        SearchAttributePair(DEFINITION, str(monitor_id)),
    ]
    await client.start_workflow(
        MONITOR_RUN,
        given,
        id=monitor_workflow_id(given.run_id),
        request_eager_start=eager,
        priority=Priority(priority_key=_MONITOR_PRIORITY, fairness_key=str(account_id)),
        search_attributes=TypedSearchAttributes(attributes),
        static_summary=f"{targets} targets",
        **_ONCE,
    )


async def start_job(
    client: Client, given: BulkJobInput, account_id: UUID, queries: int, *, eager: bool = False
) -> None:
    """Start the workflow of a bulk job; as `start_deliveries`."""
    attributes = [SearchAttributePair(ACCOUNT, str(account_id)), SearchAttributePair(KIND, "job")]
    await client.start_workflow(
        BULK_JOB,
        given,
        id=job_workflow_id(given.job_id),
        request_eager_start=eager,
        priority=Priority(priority_key=_JOB_PRIORITY, fairness_key=str(account_id)),
        search_attributes=TypedSearchAttributes(attributes),
        static_summary=f"{queries} lookups",
        **_ONCE,
    )
