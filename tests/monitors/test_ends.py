"""How runs end: cancelled, with what they found; told to workflows; with a list or a monitor that goes."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.client import Client

from database import Database
from models.lists import lists
from models.monitors import cleanup, completion, monitors
from models.monitors.monitors import MonitorSettings
from models.webhooks import endpoints
from models.webhooks.endpoints import EndpointSettings
from notifications import Notifier
from sealing import Keyring
from temporal import starts
from tests.automations.engine import ended, until
from tests.monitors.watching import Scanner, Watcher, addresses, scanned_as, workflow
from tests.views import get_run


async def test_progress_is_seen_while_a_target_is_waited_for(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(5)
    scanner.held = {targets[2]}
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id, notifier)
    await watcher.processed(monitor_id, run_id, 4)
    run = await watcher.run(monitor_id, run_id)
    assert run.status == "running" and run.credits_used == 4 and run.completed_at is None
    scanner.go.set()
    assert (await watcher.ended(monitor_id, run_id)).processed_records == 5


async def test_a_cancelled_run_ends_at_once_and_pays_for_what_it_has_found(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(4)
    scanner.held = set(targets[2:])
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id, notifier)
    await watcher.processed(monitor_id, run_id, 2)
    async with watcher.database.transaction() as connection:
        await completion.cancel(connection, watcher.account_id, monitor_id, run_id)
    run = await watcher.run(monitor_id, run_id)
    assert (run.status, run.processed_records, run.credits_used) == ("cancelled", 2, 2)
    assert await watcher.balance() == (998, 0)
    scanner.go.set()
    again, results = await watcher.found(monitor_id, notifier)
    assert again.status == "completed" and len(results) == 4
    assert len(await watcher.results(run_id)) == 2


async def test_the_workflow_of_a_run_that_was_cancelled_comes_to_its_end(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, client: Client
) -> None:
    targets = addresses(2)
    scanner.held = set(targets)
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id, notifier)

    async def is_asked() -> bool:
        return scanner.asked.total() > 0

    await until(is_asked)
    async with watcher.database.transaction() as connection:
        await completion.cancel(connection, watcher.account_id, monitor_id, run_id)
    scanner.go.set()
    await client.get_workflow_handle(starts.monitor_workflow_id(run_id)).result()
    assert (await watcher.run(monitor_id, run_id)).processed_records == 0


async def test_a_monitor_is_deleted_with_a_run_under_way(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(3)
    scanner.held = {targets[0]}
    monitor_id = await watcher.monitor(targets)
    run_id = await watcher.start(monitor_id, notifier)
    await watcher.processed(monitor_id, run_id, 2)
    async with watcher.database.transaction() as connection:
        await cleanup.delete(connection, watcher.actor, monitor_id)
    assert await watcher.balance() == (998, 0)
    scanner.go.set()


async def test_a_list_that_is_deleted_pauses_its_monitor_and_the_run_under_way_goes_on(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(3)
    scanner.held = {targets[0]}
    async with watcher.database.transaction() as connection:
        listed = await lists.create(connection, watcher.actor, "l", "ip", targets)
    monitor_id = await watcher.monitor([], list_id=listed.id)
    run_id = await watcher.start(monitor_id, notifier)
    await watcher.processed(monitor_id, run_id, 2)
    async with watcher.database.transaction() as connection:
        await lists.delete(connection, watcher.actor, listed.id)
        shown = await monitors.get(connection, watcher.account_id, monitor_id, 90)
    assert (shown.status, shown.paused_reason, shown.next_run_at) == ("paused", "list_deleted", None)
    assert shown.target_count == 0
    scanner.go.set()
    run = await watcher.ended(monitor_id, run_id)
    assert (run.status, run.processed_records) == ("completed", 3)


async def test_a_run_has_the_targets_that_its_list_had_when_it_was_accepted(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(3)
    async with watcher.database.transaction() as connection:
        listed = await lists.create(connection, watcher.actor, "l", "ip", targets[:2])
    monitor_id = await watcher.monitor([], list_id=listed.id)
    run_id = await watcher.start(monitor_id)
    async with watcher.database.transaction() as connection:
        await lists.add_targets(connection, watcher.actor, listed.id, targets[2:])
        await lists.remove_targets(connection, watcher.actor, listed.id, targets[:1])
    notifier.notify("monitors_changed")
    await watcher.ended(monitor_id, run_id)
    assert [one["target"] for one in await watcher.results(run_id)] == targets[:2]
    _, results = await watcher.found(monitor_id, notifier)
    # What nothing is known of comes first.
    assert [one["target"] for one in results] == [targets[2], targets[1]]


async def test_a_workflow_that_waits_for_a_monitor_is_told_what_has_changed(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, database: Database, keyring: Keyring
) -> None:
    targets = addresses(2)
    monitor_id = await watcher.monitor(targets, change_detection="full_refresh")
    workflow_id = await workflow(watcher, keyring, monitor_id)
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = scanned_as("malicious")
    run, _ = await watcher.found(monitor_id, notifier)

    async def started() -> list[dict[str, Any]]:
        return await watcher.rows("select id from runs where automation_id = %s", workflow_id)

    # The first run found no change, and told nobody.
    [one] = await until(started)
    told = (await ended(database, notifier, watcher.account_id, one["id"])).output
    assert told["run_id"] == str(run.id) and told["changes_detected"] == 2
    assert [change["target"] for change in told["changes"]] == targets
    assert told["changes"][0]["changes"]["threat.classification"] == {
        "old": "benign", "new": "malicious", "added": [], "removed": [],
    }  # fmt: skip
    assert told["more"] == 0


async def test_an_event_has_the_changes_as_a_workflow_gets_them_with_the_items_of_lists(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, keyring: Keyring
) -> None:
    async with watcher.database.transaction() as connection:
        chosen = EndpointSettings("https://example.com/", ["monitor.*"], None, {}, None)
        await endpoints.create(connection, keyring, watcher.actor, chosen, "whsec_c2VjcmV0")
    monitor_id = await watcher.monitor(addresses(1), tracked_fields=["verdict.reasons"])
    workflow_id = await workflow(watcher, keyring, monitor_id)
    await watcher.found(monitor_id, notifier)
    scanner.greynoise = scanned_as("malicious")
    run, [found] = await watcher.found(monitor_id, notifier)
    assert run.changes_detected == 1
    [event] = await watcher.rows("select data from events where account_id = %s", watcher.account_id)
    [changed] = event["data"]["changes"]
    told = changed["changes"]["verdict.reasons"]
    assert changed["target"] == found["target"] and event["data"]["more"] == 0
    assert told == found["changes"]["verdict.reasons"] | {
        name: found["details"]["verdict.reasons"][name] for name in ("added", "removed")
    }
    assert "malicious_scanner" in [one["code"] for one in told["added"]]
    [one] = await watcher.rows("select id from runs where automation_id = %s", workflow_id)
    async with watcher.database.connection() as connection:
        given = (await get_run(connection, watcher.account_id, one["id"])).input
    assert given["changes"] == event["data"]["changes"]


async def test_of_many_changes_the_first_hundred_are_told_and_how_many_more_there_are(
    watcher: Watcher, keyring: Keyring
) -> None:
    monitor_id = await watcher.monitor(addresses(103))
    workflow_id = await workflow(watcher, keyring, monitor_id)
    run_id = await watcher.start(monitor_id)
    await watcher.rows(
        "insert into monitor_results select %s, n, %s, 't' || n, true, '{}', '{}', null"
        " from generate_series(0, 102) n",
        run_id,
        monitor_id,
    )
    await watcher.rows(
        "update monitor_runs set status = 'running', processed_records = 103, changes_detected = 103"
        " where id = %s",
        run_id,
    )
    async with watcher.database.transaction() as connection:
        told = await completion.finish(connection, run_id)
    assert told is not None and told.accepted == 1
    [one] = await watcher.rows("select id from runs where automation_id = %s", workflow_id)
    async with watcher.database.connection() as connection:
        given = (await get_run(connection, watcher.account_id, one["id"])).input
    assert len(given["changes"]) == 100 and given["more"] == 3


async def test_a_monitor_that_is_made_while_its_list_is_deleted_is_paused_too(watcher: Watcher) -> None:
    async with watcher.database.transaction() as connection:
        listed = await lists.create(connection, watcher.actor, "l", "ip", addresses(1))

    async def delete() -> None:
        async with watcher.database.transaction() as connection:
            await lists.delete(connection, watcher.actor, listed.id)

    async with watcher.database.transaction() as making:
        plan = MonitorSettings("m", list_id=listed.id)
        monitor_id = await monitors.create(making, watcher.actor, "ip", plan, [])
        deleting = asyncio.create_task(delete())

        async def waits() -> bool:
            return bool(await watcher.rows("select 1 from pg_locks where not granted"))

        await until(waits)
    await deleting
    async with watcher.database.connection() as connection:
        shown = await monitors.get(connection, watcher.account_id, monitor_id, 90)
    assert (shown.status, shown.paused_reason) == ("paused", "list_deleted")
