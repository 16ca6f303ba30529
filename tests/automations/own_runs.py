"""Runs that have workflows of their own, for the tests that look at these."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

from database import Database
from models.automations.run_targets import RunTarget
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.engine import accept, ended, events_of, run_workflow, statuses, until

Handle = WorkflowHandle[Any, Any]


def delay(seconds: float, step_id: str = "wait") -> dict[str, Any]:
    return {"id": step_id, "type": "delay", "config": {"seconds": seconds}}


def approval(timeout: float = 3600) -> dict[str, Any]:
    return {"id": "approval", "type": "wait", "config": {"timeout": timeout}}


async def begun(
    notifier: Notifier, client: Client, database: Database, target: RunTarget, given: Any = None
) -> tuple[UUID, Handle]:
    """A run that was just accepted, and its workflow."""
    [run_id] = await accept(database, target, 1, given)
    notifier.notify(QUEUED_CHANNEL)
    return run_id, await run_workflow(client, run_id)


def summary_of(event: HistoryEvent) -> str:
    """Return what Temporal's pages show beside an event."""
    payload = event.user_metadata.summary
    return json.loads(payload.data) if payload.data else ""


async def called(handle: Handle) -> list[str]:
    """The summaries of the activities of a workflow."""
    return [summary_of(event) for event in await events_of(handle, "activity_task_scheduled")]


async def timers(handle: Handle) -> list[str]:
    return [summary_of(event) for event in await events_of(handle, "timer_started")]


async def performers(database: Database, run_id: UUID) -> dict[str, str]:
    """Return what performed each step of a run: `activity` or `shift`."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select step_id, performed_by from run_steps where run_id = %s order by position", (run_id,)
        )
        return {row["step_id"]: row["performed_by"] for row in await cursor.fetchall()}


async def carried(database: Database, run_id: UUID) -> tuple[UUID, UUID]:
    """The claim of a run, and who has it."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select claim_id, carrier from run_work where run_id = %s", (run_id,)
        )
        row: Any = await cursor.fetchone()
    return row["claim_id"], row["carrier"]


async def is_cancelled(database: Database, notifier: Notifier, target: RunTarget, run_id: UUID) -> None:
    """Wait until a run is cancelled, and what was under way in it has found its end."""
    view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "cancelled"

    async def settled() -> bool:
        view = await ended(database, notifier, target.account_id, run_id)
        return statuses(view) == {"before": "completed", "it": "cancelled", "after": "skipped"}

    await until(settled)


async def reset(client: Client, handle: Handle, event_id: int) -> None:
    """Begin a workflow anew from an event on, as Temporal's pages do it."""
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=handle.id),
            workflow_task_finish_event_id=event_id,
            reason="test",
            request_id=str(uuid4()),
        )
    )
