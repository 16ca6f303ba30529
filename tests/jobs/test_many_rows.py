"""A job whose history has become long goes on in a new one."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import ExecuteActivityInput

from models.jobs import acceptance
from temporal import starts
from tests.automations.faults import Do
from tests.jobs.jobs import Jobber
from tests.monitors.conftest import Work
from tests.monitors.watching import Scanner, addresses
from workflows.messages import LOOK_UP_ROWS, ChunkResult


@pytest.mark.long
@pytest.mark.parametrize("waits", [False, True], ids=["by its chunks", "by its waits"])
async def test_a_job_goes_on_in_another_history_when_its_own_is_long(
    jobber: Jobber,
    at_work: Work,
    client: Client,
    scanner: Scanner,
    monkeypatch: pytest.MonkeyPatch,
    waits: bool,
) -> None:
    def is_long(info: workflow.Info) -> bool:
        return info.get_current_history_length() > 20

    turns = 0

    async def wait_for_long(given: ExecuteActivityInput, do: Do) -> Any:
        nonlocal turns
        turns += given.fn.__name__ == LOOK_UP_ROWS
        return ChunkResult(seconds=0.01) if waits and turns < 20 else await do()

    monkeypatch.setattr(acceptance, "CHUNK", 2)
    monkeypatch.setattr(workflow.Info, "is_continue_as_new_suggested", is_long)
    targets = addresses(21)
    async with at_work(wait_for_long) as notifier:
        job = await jobber.ended(await jobber.accept(targets, notifier))
    assert (job.status, job.processed_rows) == ("completed", 21)
    assert [one["data"]["ip_address"] for one in await jobber.answers(job.id)] == targets
    assert set(scanner.asked.values()) == {1}
    description = await client.get_workflow_handle(starts.job_workflow_id(job.id)).describe()
    assert description.raw_description.workflow_execution_info.first_run_id != description.run_id
