"""A workflow is due while nobody is there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import Settings
from temporal.client import connect
from tests.automations.engine import until, working
from tests.schedules.scheduling import Scheduler, completed, scheduled


@pytest.mark.long
async def test_a_time_at_which_no_worker_was_there_is_one_run_when_two_come_back(
    scheduler: Scheduler, live_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> None:
    workflow = await scheduler.workflow()
    following = await scheduler.due(workflow)
    await scheduler.let_be_due(workflow, datetime.now(UTC) + timedelta(seconds=6))
    due = await scheduler.due(workflow)
    async with working(live_settings, client, database, keyring):
        await scheduled(client, scheduler, workflow)

    async def is_over() -> bool:
        return datetime.now(UTC) > due

    await until(is_over)
    assert await scheduler.runs(workflow) == []
    other = await connect(live_settings, keyring)
    async with (
        working(live_settings, client, database, keyring),
        working(live_settings, other, database, keyring),
    ):
        await completed(scheduler, workflow)
        await scheduled(client, scheduler, workflow)
        assert len(await scheduler.runs(workflow)) == 1
        assert await scheduler.due(workflow) == following
