"""Whoever is lost while a run is under way: what was recorded stands, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import ExecuteActivityInput

from models.monitors import queue
from models.monitors.queue import Found
from settings import Settings
from temporal import starts
from tests.automations.engine import hasty_worker, until
from tests.automations.faults import Do, Lost
from tests.monitors.conftest import Work
from tests.monitors.watching import Scanner, Watcher, addresses, limited_but_for, scanned_as
from tests.stacks import eventually
from workflows.messages import WATCH_CHUNK

pytestmark = pytest.mark.long

DEATHS = [
    "models.monitors.queue:claim",
    "temporal.starts:start_monitor_run",
    "models.monitors.queue:record",
]


@pytest.mark.usefixtures("short_periods")
@pytest.mark.parametrize("after", DEATHS, ids=["its claim", "the start", "a record"])
async def test_the_run_of_a_worker_that_is_killed_is_finished_by_the_next(
    watcher: Watcher, watching_settings: Settings, at_work: Work, scanner: Scanner, after: str
) -> None:
    targets = addresses(3)
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id)
    names = dict[str, str]()
    for name, one in watching_settings.providers.items():
        start = f"VEDETTE_PROVIDER_{name.upper()}"
        names[f"{start}_ENABLED"] = "0" if one.enabled is False else "1"
        if one.base_url:
            names |= {f"{start}_BASE_URL": one.base_url, f"{start}_KEY": "k"}
    with hasty_worker(watching_settings, after, **names) as dying:
        await eventually(lambda: dying.exitcode is not None, 20, "the worker has died")
        assert dying.exitcode == -signal.SIGKILL
    recorded = (await watcher.run(monitor_id, run_id)).processed_records
    async with at_work():
        run = await watcher.ended(monitor_id, run_id, 45)
    assert (run.status, run.processed_records, run.credits_used) == ("completed", 3, 3)
    assert await watcher.balance() == (997, 0)
    assert len(await watcher.results(run_id)) == 3
    assert recorded == 0 or after == DEATHS[2]


async def test_a_lost_activity_repeats_no_target_that_was_recorded(
    watcher: Watcher, at_work: Work, scanner: Scanner
) -> None:
    targets = addresses(6)
    monitor_id = await watcher.monitor(targets, change_detection="full_refresh")
    lost: list[str] = []

    async def lose_the_first(given: ExecuteActivityInput, do: Do) -> Any:
        if lost or given.fn.__name__ != WATCH_CHUNK:
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


async def test_a_target_that_two_attempts_record_together_counts_once(watcher: Watcher) -> None:
    [target] = addresses(1)
    monitor_id = await watcher.monitor([target])
    run_id = await watcher.start(monitor_id)
    found = Found(run_id, 0, monitor_id, target, baseline="{}", content_hash=b"", data="{}")
    async with watcher.database.transaction() as connection:
        await connection.execute("update monitor_runs set status = 'running' where id = %s", (run_id,))
        assert await queue.record(connection, [found, found]) == [True, True]
    assert (await watcher.run(monitor_id, run_id)).processed_records == 1


async def test_another_worker_goes_on_with_a_run_that_waits(
    watcher: Watcher, at_work: Work, scanner: Scanner
) -> None:
    [target] = addresses(1)
    scanner.greynoise = limited_but_for(seconds=25)
    monitor_id = await watcher.monitor(
        [target],
        tracked_fields=["threat.classification", "threat.abuse_score"],
        change_detection="full_refresh",
    )
    run_id = await watcher.start(monitor_id)

    async def waits() -> bool:
        return (await watcher.run(monitor_id, run_id)).resumes_at is not None

    async with at_work():
        await until(waits)
    scanner.greynoise = scanned_as("benign")
    async with at_work():
        run = await watcher.ended(monitor_id, run_id, 60)
    assert (run.status, run.targets_partial) == ("completed", 0)
    assert scanner.asked["abuseipdb", target] == 1
