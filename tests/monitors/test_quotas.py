"""A source that has no more to give for today: that is no change, and what others say still is one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from aiohttp import web

from database import Database
from models.monitors.monitors import CHANGED_CHANNEL
from models.monitors.run_views import MonitorRunView
from notifications import Notifier
from tests.monitors.watching import Answer, Scanner, Watcher, addresses, answering, reported, scanned_as


def for_so_many(count: int, answer: Answer) -> Answer:
    """Answer for so many addresses, and then say that this was all for now."""
    known: set[str] = set()

    def limited(address: str) -> web.Response:
        if address not in known and len(known) == count:
            return web.Response(status=429, headers={"retry-after": "1"})
        known.add(address)
        return answer(address)

    return limited


async def found(
    watcher: Watcher, monitor_id: UUID, notifier: Notifier
) -> tuple[MonitorRunView, list[dict[str, Any]]]:
    """A whole run that waits for no source, since the next one is due."""
    run_id = await watcher.start(monitor_id)
    await watcher.rows("update monitor_runs set ends_by = now() where id = %s", run_id)
    notifier.notify(CHANGED_CHANNEL)
    return await watcher.ended(monitor_id, run_id), await watcher.results(run_id)


async def test_what_a_source_does_not_say_of_most_targets_is_no_change(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(30)
    scanner.greynoise = for_so_many(10, scanned_as("benign"))
    monitor_id = await watcher.monitor(targets, change_detection="full_refresh")
    run, results = await found(watcher, monitor_id, notifier)
    assert (run.status, run.processed_records, run.failed_records) == ("completed", 30, 0)
    assert run.targets_partial >= 20
    told = [one for one in results if one["data"]["threat"]["classification"] == "benign"]
    assert 1 <= len(told) <= 10
    scanner.greynoise, scanner.abuseipdb = for_so_many(10, scanned_as("benign")), reported("Commercial")
    run, results = await found(watcher, monitor_id, notifier)
    assert run.changes_detected == 30
    assert {field for one in results for field in one["changes"]} == {"threat.usage_type"}


async def test_a_source_that_refuses_for_ever_holds_up_no_run(
    database: Database, watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    scanner.greynoise = answering(429)
    async with database.connection() as connection:
        await connection.execute(
            "insert into provider_states (source, failures, error_rate, limited_rate, refusals)"
            " values ('greynoise', 0, 0, 0, 6)"
        )
    monitor_id = await watcher.monitor(
        addresses(3), tracked_fields=["threat.abuse_score", "threat.classification"]
    )
    run, results = await watcher.found(monitor_id, notifier)
    assert (run.status, run.targets_partial, run.credits_used) == ("completed", 3, 3)
    assert [(one["source"], one["why"]) for result in results for one in result["silent"]] == [
        ("greynoise", "limited")
    ] * 3
    assert scanner.asked["greynoise", results[0]["target"]] <= 1
