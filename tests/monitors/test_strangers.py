"""What a stranger at Temporal's port can do to a monitor's run: under the ids of runs payloads are read."""

from __future__ import annotations

from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter

from settings import Settings
from temporal.client import TASK_QUEUE
from temporal.starts import run_workflow_id
from tests.automations.engine import until
from tests.monitors.conftest import Work
from tests.monitors.watching import Scanner, Watcher, addresses
from workflows.messages import MONITOR_RUN, MonitorRunInput


@pytest.mark.parametrize("chunks", [0, 1])
async def test_a_start_under_another_id_does_not_end_a_run_of_a_monitor(
    watcher: Watcher, watching_settings: Settings, at_work: Work, scanner: Scanner, chunks: int
) -> None:
    stranger = await Client.connect(
        str(watching_settings.temporal_address), data_converter=pydantic_data_converter
    )
    targets = addresses(2)
    scanner.held = set(targets)
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id)
    async with at_work():

        async def is_asked() -> bool:
            return scanner.asked.total() > 0

        await until(is_asked)
        forged = await stranger.start_workflow(
            MONITOR_RUN, MonitorRunInput(run_id, chunks), id=run_workflow_id(uuid4()), task_queue=TASK_QUEUE
        )
        with pytest.raises(WorkflowFailureError):
            await forged.result()
        scanner.go.set()
        run = await watcher.ended(monitor_id, run_id)
    assert (run.status, run.processed_records) == ("completed", 2)
