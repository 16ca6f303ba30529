"""Whoever is lost while a run is under way: what was recorded stands, and nothing is paid twice."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.client import Client
from temporalio.worker import ExecuteActivityInput

from temporal import starts
from tests.automations.engine import until
from tests.automations.faults import Do, Lost
from tests.monitors.conftest import Work
from tests.monitors.watching import Scanner, Watcher, addresses
from workflows.messages import WATCH_TARGETS


async def test_a_lost_activity_repeats_no_target_that_was_recorded(
    watcher: Watcher, at_work: Work, scanner: Scanner
) -> None:
    targets = addresses(6)
    monitor_id = await watcher.monitor(targets, change_detection="full_refresh")
    lost: list[str] = []

    async def lose_the_first(given: ExecuteActivityInput, do: Do) -> Any:
        if lost or given.fn.__name__ != WATCH_TARGETS:
            return await do()
        lost.append(given.fn.__name__)
        scanner.held = {targets[5]}
        doing = asyncio.ensure_future(do())
        await watcher.processed(monitor_id, run_id, 5)
        doing.cancel()
        scanner.held = set()
        raise Lost

    run_id = await watcher.start(monitor_id)
    async with at_work(lose_the_first):
        run = await watcher.ended(monitor_id, run_id)
    assert lost and (run.status, run.processed_records, run.credits_used) == ("completed", 6, 6)
    assert {scanner.asked["greynoise", one] for one in targets[:5]} == {1}
    assert await watcher.balance() == (994, 0)


async def test_a_run_whose_workflow_was_terminated_has_failed(
    watcher: Watcher, at_work: Work, scanner: Scanner, client: Client
) -> None:
    targets = addresses(2)
    scanner.held = set(targets)
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id)
    async with at_work():

        async def is_asked() -> bool:
            return scanner.asked.total() > 0

        await until(is_asked)
        await client.get_workflow_handle(starts.monitor_workflow_id(run_id)).terminate()
        await watcher.rows("update monitor_runs set probed_at = '2026-01-01' where id = %s", run_id)
        run = await watcher.ended(monitor_id, run_id)
        scanner.go.set()
    assert run.status == "failed" and run.error is not None and run.error["code"] == "run_lost"
    assert await watcher.balance() == (1000, 0)
