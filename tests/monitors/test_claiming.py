"""Whose runs come first. Nothing here has a worker: it would claim what these tests claim."""

from __future__ import annotations

from models.monitors import monitors, queue
from models.schedules.scheduling import MONITORS
from tests.monitors.conftest import NewWatcher
from tests.monitors.watching import Watcher


async def test_an_account_has_at_most_half_of_the_runs_at_work_and_others_come_first(
    watcher: Watcher, new_watcher: NewWatcher
) -> None:
    other = await new_watcher()
    for _ in range(6):
        await watcher.start(await watcher.monitor())
    await other.start(await other.monitor())
    async with watcher.database.connection() as connection:
        claimed = await queue.claim(connection, 4)
        owners = [one.account_id for one in claimed]
        assert owners.count(other.account_id) == 1
        assert owners.count(watcher.account_id) == 2
        assert await queue.claim(connection, 4) == []


async def test_a_schedule_that_was_told_of_a_pause_is_told_of_the_end_of_it_that_came_meanwhile(
    watcher: Watcher,
) -> None:
    monitor_id = await watcher.monitor(frequency="weekly")
    await watcher.rows("update monitors set scheduled_for = next_run_at where id = %s", monitor_id)
    database = watcher.database
    async with database.transaction() as connection:
        await monitors.pause(connection, watcher.actor, monitor_id)
    async with database.transaction() as telling, database.transaction() as changing:
        told = await MONITORS.lock_schedules(telling, [monitor_id])
        await monitors.resume(changing, watcher.actor, monitor_id)
        left = await MONITORS.mark_scheduled(telling, told)
    assert left == told
    async with database.connection() as connection:
        assert monitor_id not in await MONITORS.find_unscheduled(connection, 10)
        await MONITORS.mark_changed(connection, left[0])
        assert monitor_id in await MONITORS.find_unscheduled(connection, 10)
