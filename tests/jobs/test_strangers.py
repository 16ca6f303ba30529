"""What a stranger at Temporal's port can do to a job: under the ids of runs their payloads are read."""

from __future__ import annotations

from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter

from settings import Settings
from temporal.client import TASK_QUEUE
from temporal.starts import run_workflow_id
from tests.jobs.jobs import Jobber
from tests.monitors.conftest import Work
from tests.monitors.watching import Scanner, addresses
from workflows.messages import BULK_JOB, BulkJobInput


@pytest.mark.parametrize("chunks", [0, 1, 1_000_000])
async def test_a_start_under_another_id_neither_ends_a_job_nor_does_its_work(
    jobber: Jobber, watching_settings: Settings, at_work: Work, scanner: Scanner, chunks: int
) -> None:
    stranger = await Client.connect(
        str(watching_settings.temporal_address), data_converter=pydantic_data_converter
    )
    targets = addresses(3)
    scanner.held = set(targets[2:])
    async with at_work() as notifier:
        job_id = await jobber.accept(targets, notifier)
        await jobber.processed(job_id, 2)
        forged = await stranger.start_workflow(
            BULK_JOB, BulkJobInput(job_id, chunks), id=run_workflow_id(uuid4()), task_queue=TASK_QUEUE
        )
        with pytest.raises(WorkflowFailureError):
            await forged.result()
        scanner.go.set()
        job = await jobber.ended(job_id)
    assert (job.status, job.processed_rows) == ("completed", 3)
