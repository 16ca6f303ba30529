"""A run whose history has become long goes on in a new one."""

from __future__ import annotations

import pytest
from temporalio import workflow
from temporalio.client import Client

from models.monitors import runs
from notifications import Notifier
from temporal import starts
from tests.monitors.watching import Scanner, Watcher, addresses


async def test_a_run_goes_on_in_another_history_when_its_own_is_long(
    watcher: Watcher, notifier: Notifier, client: Client, scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_long(info: workflow.Info) -> bool:
        return info.get_current_history_length() > 20

    monkeypatch.setattr(runs, "CHUNK", 2)
    monkeypatch.setattr(workflow.Info, "is_continue_as_new_suggested", is_long)
    targets = addresses(41)
    monitor_id = await watcher.monitor(targets)
    run, results = await watcher.found(monitor_id, notifier)
    assert (run.status, run.processed_records) == ("completed", 41)
    assert [one["target"] for one in results] == targets
    assert set(scanner.asked.values()) == {1}
    id = starts.monitor_workflow_id(run.id)
    description = await client.get_workflow_handle(id).describe()
    assert description.raw_description.workflow_execution_info.first_run_id != description.run_id
