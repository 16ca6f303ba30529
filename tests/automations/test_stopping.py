"""A worker that is told to stop asks nobody for more, and finishes what it has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client

import worker
from database import Database
from sealing import Keyring
from settings import Settings
from temporal.client import TASK_QUEUE
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    events_of,
    requested,
    transform,
    webhook,
    working,
)
from workflows.messages import AUTOMATION_RUN

EXECUTION = "shift"


async def test_a_worker_that_drains_polls_temporal_no_more(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring, new_target: NewTarget,
    receiver: Endpoint, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    polls, open_workers = asyncio.Event(), list[object]()

    class Seen(worker.Worker):
        async def __aenter__(self) -> Any:
            open_workers.append(self)
            return await super().__aenter__()

        async def __aexit__(self, *error: Any) -> None:
            await super().__aexit__(*error)
            open_workers.remove(self)
            if not open_workers:
                polls.set()

    monkeypatch.setattr(worker, "Worker", Seen)
    target = await new_target([webhook(f"{receiver.url}/held"), transform("end", "'done'")])
    [run_id] = await accept(database, target)
    async with asyncio.TaskGroup() as tasks:
        stop = asyncio.Event()

        async def work() -> None:
            async with working(open_settings, client, database, keyring):
                await stop.wait()

        working_task = tasks.create_task(work())
        await requested(receiver, 1)
        stop.set()
        await polls.wait()
        # The run is at work still; and what is started now, nobody takes up.
        handle = await client.start_workflow(
            AUTOMATION_RUN, {"run_id": run_id, "claim_id": run_id}, id=f"run/{run_id}", task_queue=TASK_QUEUE
        )
        assert not working_task.done()
        receiver.open.set()
        await working_task
    assert await events_of(handle, "workflow_task_started") == []
    await handle.terminate()
    async with working(open_settings, client, database, keyring) as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
    assert len(receiver.requests) == 1, "it was finished, and not done again"
