"""Temporal's description of the workflow of a run."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.service import RPCError, RPCStatusCode

from models.runs.carriers import PendingActivity
from temporal.starts import run_workflow_id

_TIMEOUT = timedelta(seconds=2)


async def describe_run(client: Client, run_id: UUID, pages: str | None = None) -> dict[str, Any] | None:
    """Describe the workflow of a run, as fields of a `CarrierView`; None if Temporal has none.

    Args:
        client: of its namespace.
        run_id: the run.
        pages: the address of Temporal's web pages, if it is known.

    Raises:
        temporalio.service.RPCError: the server is unreachable.
    """
    handle = client.get_workflow_handle(run_workflow_id(run_id))
    try:
        found = await handle.describe(rpc_timeout=_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    # Those of a closed workflow are of the moment when it was closed: the run's rows may have more.
    is_open = found.status is WorkflowExecutionStatus.RUNNING
    activities = list(found.raw_description.pending_activities) if is_open else list[PendingActivityInfo]()
    return {
        "workflow_id": handle.id,
        "workflow_status": found.status.name.lower() if found.status else None,
        "workflow_url": pages
        and f"{pages}/namespaces/{_quote(client.namespace)}/workflows/{_quote(handle.id)}",
        "history_length": found.history_length,
        "activities": [_activity(one) for one in activities],
        "progress": await _ask_progress(handle) if is_open else [],
    }


def _quote(part: str) -> str:
    return quote(part, safe="")


async def _ask_progress(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """Return the progress of a workflow; nothing without a worker, which alone can answer."""
    try:
        progress = str(await handle.query("progress", rpc_timeout=_TIMEOUT))
    except (RPCError, WorkflowQueryFailedError, WorkflowQueryRejectedError):
        return []
    return [line.removeprefix("- ") for line in progress.splitlines()]


def _activity(pending: PendingActivityInfo) -> PendingActivity:
    since = pending.scheduled_time if pending.HasField("scheduled_time") else pending.last_started_time
    return PendingActivity(
        activity=pending.activity_id,
        attempt=pending.attempt,
        since=since.ToDatetime(tzinfo=UTC),
        last_failure=pending.last_failure.message or None,
        paused=pending.paused,
    )
