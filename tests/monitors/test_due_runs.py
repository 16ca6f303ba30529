"""A monitor runs by itself when its calendar says so: by its Temporal Schedule, which follows its row."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client, ScheduleDescription
from temporalio.service import RPCError, RPCStatusCode

from activities.schedules import ScheduleActivities
from database import Database
from models.monitors import cleanup, monitors, runs
from models.monitors.monitors import CHANGED_CHANNEL
from models.schedules.scheduling import MONITORS, ScheduledTable
from notifications import Notifier
from temporal import due_schedules
from tests.automations.engine import until
from tests.monitors.conftest import NewWatcher
from tests.monitors.watching import Scanner, Watcher, addresses


async def row(watcher: Watcher, monitor_id: UUID) -> dict[str, Any]:
    [found] = await watcher.rows("select * from monitors where id = %s", monitor_id)
    return found


async def runs_of(watcher: Watcher, monitor_id: UUID) -> list[dict[str, Any]]:
    return await watcher.rows("select * from monitor_runs where monitor_id = %s order by id", monitor_id)


async def schedule(client: Client, monitor_id: UUID) -> ScheduleDescription | None:
    try:
        return await client.get_schedule_handle(f"monitor/{monitor_id}").describe()
    except RPCError as error:
        assert error.status is RPCStatusCode.NOT_FOUND
        return None


async def scheduled(client: Client, watcher: Watcher, monitor_id: UUID) -> ScheduleDescription:
    """The Schedule, once it says what the row says."""

    async def look() -> ScheduleDescription | None:
        due, found = (await row(watcher, monitor_id))["next_run_at"], await schedule(client, monitor_id)
        if found is None:
            return None
        if due is None:
            return found if found.schedule.state.paused else None
        return found if found.info.next_action_times == [due] else None

    return await until(look)


async def let_be_due(watcher: Watcher, monitor_id: UUID, at: datetime) -> None:
    await watcher.rows(
        "update monitors set next_run_at = date_trunc('second', %s::timestamptz) where id = %s",
        at,
        monitor_id,
    )


async def test_its_schedule_says_when_it_is_due_next(
    watcher: Watcher, notifier: Notifier, client: Client
) -> None:
    monitor_id = await watcher.monitor(frequency="monthly", timezone="Europe/Berlin")
    notifier.notify(CHANGED_CHANNEL)
    found = await scheduled(client, watcher, monitor_id)
    assert not found.schedule.state.paused
    assert found.info.next_action_times[0] - datetime.now(UTC) > timedelta(days=27)


async def test_when_it_is_due_its_schedule_starts_a_run_and_then_says_the_next_time(
    watcher: Watcher, notifier: Notifier, client: Client, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(frequency="hourly")
    notifier.notify(CHANGED_CHANNEL)
    due = (await row(watcher, monitor_id))["next_run_at"]
    await scheduled(client, watcher, monitor_id)
    await let_be_due(watcher, monitor_id, datetime.now(UTC) + timedelta(seconds=2))
    notifier.notify(CHANGED_CHANNEL)
    [run] = await until(lambda: runs_of(watcher, monitor_id))
    assert run["trigger"] == "schedule"
    assert (await watcher.ended(monitor_id, run["id"])).status == "completed"
    assert (await row(watcher, monitor_id))["next_run_at"] == due
    found = await scheduled(client, watcher, monitor_id)
    assert found.info.num_actions == 1


async def test_a_schedule_that_another_worker_is_at_is_tried_no_more_often_than_the_sweep_comes(
    watcher: Watcher, notifier: Notifier, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor_id, calls = await watcher.monitor(), Counter[str]()
    await scheduled(client, watcher, monitor_id)

    def counted(name: str, do: Any) -> Any:
        async def call(*given: Any) -> Any:
            calls[name] += given[0] is MONITORS
            return await do(*given)

        return call

    async def has_tried() -> bool:
        return calls["sweeps"] >= 3 and calls["tries"] > 0

    async with watcher.database.transaction() as other:
        # The process that made the schedule may be writing that down still.
        await until(lambda: MONITORS.lock_schedules(other, [monitor_id]))
        monkeypatch.setattr(ScheduledTable, "find_gone", counted("sweeps", ScheduledTable.find_gone))
        monkeypatch.setattr(ScheduledTable, "lock_schedules", counted("tries", ScheduledTable.lock_schedules))
        await watcher.rows("update monitors set scheduled_for = null where id = %s", monitor_id)
        await until(has_tried)
        assert calls["tries"] <= 2 * calls["sweeps"]


async def test_a_pause_pauses_its_schedule_and_resuming_goes_on_with_the_calendar(
    watcher: Watcher, notifier: Notifier, client: Client
) -> None:
    monitor_id = await watcher.monitor(frequency="weekly")
    due = (await row(watcher, monitor_id))["next_run_at"]
    await scheduled(client, watcher, monitor_id)
    for change, paused in ((monitors.pause, True), (monitors.resume, False)):
        async with watcher.database.transaction() as connection:
            await change(connection, watcher.actor, monitor_id)
        notifier.notify(CHANGED_CHANNEL)
        assert (await scheduled(client, watcher, monitor_id)).schedule.state.paused is paused
    assert (await row(watcher, monitor_id))["next_run_at"] == due


async def test_a_monitor_that_is_deleted_leaves_neither_schedule_nor_rows(
    watcher: Watcher, notifier: Notifier, client: Client, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(addresses(3))
    run, _ = await watcher.found(monitor_id, notifier)
    await scheduled(client, watcher, monitor_id)
    async with watcher.database.transaction() as connection:
        await cleanup.delete(connection, watcher.actor, monitor_id)
    notifier.notify(CHANGED_CHANNEL)

    async def gone() -> bool:
        return await watcher.rows("select 1 from monitors where id = %s", monitor_id) == []

    await until(gone)
    assert await schedule(client, monitor_id) is None
    assert await watcher.rows("select 1 from monitor_results where run_id = %s", run.id) == []
    for table in ("monitor_targets", "monitor_runs", "monitor_baselines", "monitor_snapshots"):
        assert await watcher.rows(f"select 1 from {table} where monitor_id = %s", monitor_id) == []


async def test_a_monitor_stays_while_another_worker_is_at_what_it_has_left(watcher: Watcher) -> None:
    monitor_id = await watcher.monitor()
    await watcher.rows("insert into monitor_baselines values (%s, 't', '', '{}', now())", monitor_id)
    async with watcher.database.transaction() as other:
        await other.execute("select from monitor_baselines where monitor_id = %s for update", (monitor_id,))
        async with watcher.database.transaction() as connection:
            await cleanup.delete(connection, watcher.actor, monitor_id)
        async with watcher.database.connection() as connection:
            await cleanup.purge_deleted(connection, monitor_id)
        assert await watcher.rows("select 1 from monitors where id = %s", monitor_id)
    async with watcher.database.connection() as connection:
        await cleanup.purge_deleted(connection, monitor_id)
    for table, key in (("monitors", "id"), ("monitor_baselines", "monitor_id")):
        assert not await watcher.rows(f"select 1 from {table} where {key} = %s", monitor_id)


async def test_after_days_without_anyone_it_runs_once_and_then_at_its_next_time(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    monitor_id = await watcher.monitor(frequency="daily")
    due = (await row(watcher, monitor_id))["next_run_at"]
    await let_be_due(watcher, monitor_id, due - timedelta(days=3))
    [run] = await until(lambda: runs_of(watcher, monitor_id))
    await watcher.ended(monitor_id, run["id"])
    assert (await row(watcher, monitor_id))["next_run_at"] == due
    assert len(await runs_of(watcher, monitor_id)) == 1


async def test_a_run_that_is_due_while_one_is_under_way_is_left_out(watcher: Watcher) -> None:
    monitor_id = await watcher.monitor(frequency="hourly")
    due = (await row(watcher, monitor_id))["next_run_at"]
    await watcher.start(monitor_id)
    await let_be_due(watcher, monitor_id, due - timedelta(hours=1))
    async with watcher.database.transaction() as connection:
        assert await runs.start_due(connection, monitor_id) is None
    assert len(await runs_of(watcher, monitor_id)) == 1
    assert (await row(watcher, monitor_id))["next_run_at"] == due


async def test_a_run_that_is_not_due_is_not_accepted(watcher: Watcher) -> None:
    monitor_id = await watcher.monitor()
    async with watcher.database.transaction() as connection:
        assert await runs.start_due(connection, monitor_id) is None
    assert await runs_of(watcher, monitor_id) == []


@pytest.mark.parametrize(("balance", "count", "code"), [(1, 2, "insufficient_credits"), (1, 0, "no_targets")])
async def test_a_run_that_cannot_begin_when_it_is_due_has_failed_and_says_why(
    new_watcher: NewWatcher, balance: int, count: int, code: str
) -> None:
    watcher = await new_watcher(balance)
    monitor_id = await watcher.monitor(addresses(count), frequency="hourly")
    await let_be_due(watcher, monitor_id, datetime.now(UTC) - timedelta(seconds=1))
    async with watcher.database.transaction() as connection:
        ended = await runs.start_due(connection, monitor_id)
    assert ended is not None and ended.told
    [run] = await runs_of(watcher, monitor_id)
    assert run["status"] == "failed" and run["error"]["code"] == code
    assert (await row(watcher, monitor_id))["run_id"] is None
    assert await watcher.balance() == (balance, 0)
    assert await watcher.rows("select 1 from monitor_run_chunks where run_id = %s", run["id"]) == []


async def test_a_schedule_that_is_lost_is_made_again_and_one_without_a_monitor_is_removed(
    watcher: Watcher, notifier: Notifier, client: Client, database: Database
) -> None:
    monitor_id, stranger = await watcher.monitor(), UUID(int=1)
    notifier.notify(CHANGED_CHANNEL)
    await scheduled(client, watcher, monitor_id)
    await due_schedules.MONITORS.remove(client, monitor_id)
    await due_schedules.MONITORS.update(
        client, stranger, watcher.account_id, datetime(2030, 1, 1, tzinfo=UTC), False
    )

    async def listed() -> bool:
        known = await due_schedules.MONITORS.list_all(client)
        return stranger in known and monitor_id not in known

    await until(listed)
    assert await ScheduleActivities(database, client, notifier).reconcile_schedules() >= 1
    await scheduled(client, watcher, monitor_id)
    assert await schedule(client, stranger) is None


async def test_a_schedule_that_comes_late_has_no_later_run_begin_before_its_time(
    watcher: Watcher,
) -> None:
    monitor_id = await watcher.monitor(frequency="hourly")
    due = datetime.now(UTC) + timedelta(seconds=15)
    await let_be_due(watcher, monitor_id, due)
    async with watcher.database.transaction() as connection:
        assert await runs.start_due(connection, monitor_id, due - timedelta(hours=1)) is None
    assert await runs_of(watcher, monitor_id) == []


async def test_a_schedule_comes_in_time_where_the_clock_of_the_database_is_behind(watcher: Watcher) -> None:
    monitor_id = await watcher.monitor(frequency="hourly")
    due = datetime.now(UTC) + timedelta(seconds=45)
    await let_be_due(watcher, monitor_id, due)
    async with watcher.database.transaction() as connection:
        await runs.start_due(connection, monitor_id, due)
    assert len(await runs_of(watcher, monitor_id)) == 1


async def test_a_monitor_that_cannot_be_run_keeps_no_other_from_its_run(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    broken, sound = await watcher.monitor(), await watcher.monitor()
    now = datetime.now(UTC)
    await let_be_due(watcher, broken, now - timedelta(hours=2))
    await let_be_due(watcher, sound, now - timedelta(hours=1))
    await watcher.rows("update monitors set timezone = 'Nowhere/Lost' where id = %s", broken)
    try:
        [run] = await until(lambda: runs_of(watcher, sound))
        await watcher.ended(sound, run["id"])
    finally:
        await watcher.rows("delete from monitors where id = %s", broken)
