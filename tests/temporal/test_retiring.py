"""Workflows of kinds that former releases had."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from temporal.retiring import end_former_workflows
from tests.automations.engine import until


async def test_a_workflow_of_a_former_kind_is_terminated_and_no_other(client: Client) -> None:
    queue = f"nobody/{uuid4()}"

    async def started(kind: str, name: str) -> WorkflowHandle[Any, Any]:
        return await client.start_workflow(kind, id=f"{name}/{uuid4()}", task_queue=queue)

    gone = await started("AutomationBatch", "automation")
    kept = [await started("Maintenance", "automation"), await started("AutomationRun", "run")]

    async def seen() -> bool:
        found = {one.id async for one in client.list_workflows(f"TaskQueue = '{queue}'")}
        return found == {one.id for one in [gone, *kept]}

    await until(seen)
    assert await end_former_workflows(client) == 1
    assert (await gone.describe()).status is WorkflowExecutionStatus.TERMINATED
    for one in kept:
        assert (await one.describe()).status is WorkflowExecutionStatus.RUNNING
        await one.terminate()
