"""What a stranger at Temporal's port can do to deliveries: under the ids of runs payloads are read."""

from __future__ import annotations

from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter

from database import Database
from settings import Settings
from temporal.client import TASK_QUEUE
from temporal.starts import run_workflow_id
from tests.automations.engine import Endpoint, Work, requested
from tests.deliveries.receivers import Hooks
from workflows.messages import DELIVERY_BATCH


async def test_a_start_under_another_id_sends_nothing_again(
    database: Database, quick_settings: Settings, at_work: Work, hooks: Hooks, receiver: Endpoint
) -> None:
    stranger = await Client.connect(
        str(quick_settings.temporal_address), data_converter=pydantic_data_converter
    )
    await hooks.endpoint(f"{receiver.url}/held")
    async with at_work():
        await hooks.emit()
        await requested(receiver, 1)
        async with database.connection() as connection:
            cursor = await connection.execute("select batch_id from delivery_work where batch_id is not null")
            [row] = await cursor.fetchall()
        forged = await stranger.start_workflow(
            DELIVERY_BATCH, row["batch_id"], id=run_workflow_id(uuid4()), task_queue=TASK_QUEUE
        )
        with pytest.raises(WorkflowFailureError):
            await forged.result()
        receiver.open.set()
        await hooks.settled()
    assert len(receiver.requests) == 1
