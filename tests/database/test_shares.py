"""A borrower with many tasks leaves connections to others, and no one waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

import database as pools
from database import ConnectionsBusy, Database
from tests.stacks import eventually

SIZE = 6
MANY = 40


@contextlib.asynccontextmanager
async def opened(database_url: str) -> AsyncGenerator[Database]:
    """Open a pool for the time of the block."""
    pool = Database(database_url, name="pool", size=SIZE)
    await pool.open()
    yield pool
    await pool.close()


@pytest.fixture
async def pool(database_url: str) -> AsyncGenerator[Database]:
    async with opened(database_url) as pool:
        yield pool


class Borrower:
    """Many tasks that hold what they get until `done`."""

    def __init__(self, pool: Database, name: str) -> None:
        self._pool = pool
        self._name = name
        self.held = 0
        self.done = asyncio.Event()

    async def hold(self) -> None:
        """Hold a connection."""
        self._pool.lend_to(self._name)
        async with self._pool.connection():
            self.held += 1
            await self.done.wait()

    @contextlib.asynccontextmanager
    async def at_work(self, tasks: int = MANY) -> AsyncGenerator[list[asyncio.Task[None]]]:
        """Run the tasks in the block, and await their ends."""
        started = [asyncio.create_task(self.hold()) for _ in range(tasks)]
        try:
            yield started
        finally:
            self.done.set()
            await asyncio.wait(started)
        assert not [task for task in started if not task.cancelled() and task.exception()]


async def test_a_borrower_alone_leaves_connections_to_one_who_comes_later(pool: Database) -> None:
    first, second = Borrower(pool, "first"), Borrower(pool, "second")
    async with first.at_work():
        await eventually(lambda: first.held == SIZE - 2, what="the first has its share")
        async with second.at_work(2):
            await eventually(lambda: second.held == 2, what="the second has what the first left")
        assert first.held == SIZE - 2
    assert first.held == MANY


async def test_a_task_that_borrows_within_what_it_borrowed_needs_no_second_turn(pool: Database) -> None:
    first = Borrower(pool, "first")
    async with contextlib.AsyncExitStack() as held:
        async with first.at_work(SIZE - 3):
            pool.lend_to("first")
            await held.enter_async_context(pool.connection())
            await eventually(lambda: first.held == SIZE - 3, what="the share is used up")
            async with pool.connection():
                pass


async def test_a_turn_ends_where_its_block_ends(pool: Database) -> None:
    pool.lend_to("first")
    for _ in range(MANY):
        async with pool.connection():
            pass
        with contextlib.suppress(ZeroDivisionError):
            async with pool.transaction():
                raise ZeroDivisionError
    async with contextlib.AsyncExitStack() as held:
        first = Borrower(pool, "first")
        await held.enter_async_context(first.at_work())
        await eventually(lambda: first.held == SIZE - 2, what="all turns came back")


async def test_one_who_holds_a_lock_for_others_goes_out_of_turn(pool: Database) -> None:
    first = Borrower(pool, "first")
    async with first.at_work():
        await eventually(lambda: first.held == SIZE - 2, what="the first has its share")
        pool.lend_to("first")
        async with pool.transaction(shared=True) as connection:
            await connection.execute("select 1")


async def test_a_task_that_a_borrower_starts_waits_for_no_turn_of_his(pool: Database) -> None:
    async def look() -> None:
        async with pool.connection() as connection:
            await connection.execute("select 1")

    first = Borrower(pool, "first")
    async with first.at_work():
        await eventually(lambda: first.held == SIZE - 2, what="the first has its share")
        pool.lend_to("first")
        await asyncio.create_task(look())


async def test_one_whose_turn_does_not_come_is_told_that_others_are_busy(
    pool: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_TURN_SECONDS", 0.2)
    first = Borrower(pool, "first")
    async with first.at_work(SIZE - 2):
        await eventually(lambda: first.held == SIZE - 2, what="the first has its share")
        pool.lend_to("first")
        with pytest.raises(ConnectionsBusy):
            async with pool.connection():
                pass
    async with pool.connection():
        assert not pool.is_away


async def test_a_pool_that_is_lent_out_is_busy_and_its_database_is_not_away(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_POOL_SECONDS", 2.0)
    async with opened(database_url) as pool, contextlib.AsyncExitStack() as held:
        for _ in range(SIZE):
            await held.enter_async_context(pool.connection())
        with pytest.raises(ConnectionsBusy):
            await held.enter_async_context(pool.connection())
        assert not pool.is_away


async def test_cancelled_tasks_give_back_their_turns(pool: Database) -> None:
    first = Borrower(pool, "first")
    async with first.at_work() as tasks:
        await eventually(lambda: first.held == SIZE - 2, what="the first has its share")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    again = Borrower(pool, "first")
    async with again.at_work():
        await eventually(lambda: again.held == SIZE - 2, what="all turns came back")
