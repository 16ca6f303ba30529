"""How long what monitors have found is kept: runs for their days, answers as long as a run shows them."""

from __future__ import annotations

from uuid import UUID

from database import Database
from models.lists import lists
from models.monitors import cleanup, overview, runs
from notifications import Notifier
from tests.monitors.watching import Scanner, Watcher, addresses, scanned_as


async def purge(database: Database, kept_days: int = 90) -> int:
    async with database.connection() as connection:
        return await cleanup.purge_old(connection, kept_days)


async def age(watcher: Watcher, run_id: UUID, days: int) -> None:
    """Let a run have ended so many days ago."""
    await watcher.rows(
        "update monitor_runs set completed_at = now() - make_interval(days => %s) where id = %s", days, run_id
    )


async def test_a_run_goes_with_its_results_when_it_is_older_than_its_monitor_keeps_it(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, database: Database
) -> None:
    kept = await watcher.monitor(retention_days=30)
    gone = await watcher.monitor(addresses(2), retention_days=10)
    for monitor_id in (kept, gone):
        run, _ = await watcher.found(monitor_id, notifier)
        await age(watcher, run.id, 20)
    assert await purge(database) == 1
    async with database.connection() as connection:
        left, total = await runs.list_some(connection, watcher.account_id, limit=10, offset=0)
        found, results = await overview.list_results(
            connection, watcher.account_id, overview.ResultFilter(), limit=10, offset=0
        )
    assert ([run.monitor_id for run in left], total) == ([kept], 1)
    assert (len(found), results) == (1, 1)


async def test_what_is_known_stays_when_the_run_goes_that_found_it_out(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, database: Database
) -> None:
    monitor_id = await watcher.monitor(change_detection="full_refresh")
    first, _ = await watcher.found(monitor_id, notifier)
    await age(watcher, first.id, 91)
    assert await purge(database) == 1
    scanner.greynoise = scanned_as("malicious")
    _, [result] = await watcher.found(monitor_id, notifier)
    assert result["changes"]["threat.classification"] == {"old": "benign", "new": "malicious"}


async def test_an_answer_stays_as_long_as_a_run_shows_it(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, database: Database
) -> None:
    monitor_id = await watcher.monitor(change_detection="full_refresh")
    answers = "select run_id from monitor_snapshots where monitor_id = %s order by run_id"
    first, _ = await watcher.found(monitor_id, notifier)
    await watcher.rows("update monitors set change_detection = 'diff_only' where id = %s", monitor_id)
    second, _ = await watcher.found(monitor_id, notifier)
    await watcher.rows("update monitors set change_detection = 'full_refresh' where id = %s", monitor_id)
    third, _ = await watcher.found(monitor_id, notifier)
    assert [row["run_id"] for row in await watcher.rows(answers, monitor_id)] == [first.id, third.id]
    await age(watcher, first.id, 91)
    assert await purge(database) == 1
    [result] = await watcher.results(second.id)
    assert result["data"]["threat"]["classification"] == "benign"
    await age(watcher, second.id, 91)
    assert await purge(database) == 1
    assert [row["run_id"] for row in await watcher.rows(answers, monitor_id)] == [third.id]


async def test_a_target_that_left_its_list_is_forgotten_after_as_many_days_and_others_are_not(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, database: Database
) -> None:
    targets = addresses(2)
    async with database.transaction() as connection:
        listed = await lists.create(connection, watcher.actor, "l", "ip", targets)
    monitor_id = await watcher.monitor([], list_id=listed.id)
    run, _ = await watcher.found(monitor_id, notifier)
    async with database.transaction() as connection:
        await lists.remove_targets(connection, watcher.actor, listed.id, targets[:1])
    await age(watcher, run.id, 91)
    await watcher.rows(
        "update monitor_baselines set updated_at = now() - interval '91 days' where monitor_id = %s",
        monitor_id,
    )
    await purge(database)
    for table in ("monitor_baselines", "monitor_snapshots"):
        left = await watcher.rows(f"select target from {table} where monitor_id = %s", monitor_id)
        assert [row["target"] for row in left] == targets[1:]


async def test_a_run_that_is_under_way_is_never_too_old(watcher: Watcher, database: Database) -> None:
    monitor_id = await watcher.monitor()
    run_id = await watcher.start(monitor_id)
    await watcher.rows("update monitor_runs set created_at = '2020-01-01' where id = %s", run_id)
    assert await purge(database) == 0
    assert (await watcher.run(monitor_id, run_id)).status == "queued"
