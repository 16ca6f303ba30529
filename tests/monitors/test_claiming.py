"""Whose runs come first. Nothing here has a worker: it would claim what these tests claim."""

from __future__ import annotations

from models.monitors import working
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
        claimed = await working.claim(connection, 4)
        owners = [one.account_id for one in claimed]
        assert owners.count(other.account_id) == 1
        assert owners.count(watcher.account_id) == 2
        assert await working.claim(connection, 4) == []
