"""Workflows of batches that nobody knows any more."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from temporal import retiring
from temporal.starts import workflow_id
from tests.automations.engine import until


async def test_the_workflow_of_an_unknown_batch_is_terminated_and_no_other(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another's id, which is of no batch, stands in nobody's way."""
    monkeypatch.setattr(retiring, "_YOUNGEST", timedelta())
    known, unknown, queue = uuid4(), uuid4(), f"nobody/{uuid4()}"

    async def started(kind: str, name: str) -> WorkflowHandle[Any, Any]:
        return await client.start_workflow(kind, id=name, task_queue=queue)

    gone = await started("AutomationBatch", workflow_id(unknown))
    kept = [
        await started("AutomationBatch", f"forged/{uuid4()}"),
        await started("AutomationBatch", workflow_id(known)),
        await started("Maintenance", workflow_id(uuid4())),
    ]

    async def seen() -> bool:
        found = {one.id async for one in client.list_workflows(f"TaskQueue = '{queue}'")}
        return found == {one.id for one in [gone, *kept]}

    await until(seen)

    async def find_unknown(batch_ids: Collection[UUID]) -> set[UUID]:
        return set(batch_ids) & {unknown}

    assert await retiring.retire_unknown_batches(client, find_unknown) == 1
    assert (await gone.describe()).status is WorkflowExecutionStatus.TERMINATED
    for one in kept:
        assert (await one.describe()).status is WorkflowExecutionStatus.RUNNING
        await one.terminate()


async def test_a_workflow_that_has_just_begun_is_left_alone(client: Client) -> None:
    """Its batch may have been done at once: it is about to learn so."""
    handle = await client.start_workflow(
        "AutomationBatch", id=workflow_id(uuid4()), task_queue=f"nobody/{uuid4()}"
    )

    async def find_unknown(batch_ids: Collection[UUID]) -> Collection[UUID]:
        return batch_ids

    await retiring.retire_unknown_batches(client, find_unknown)
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    await handle.terminate()
