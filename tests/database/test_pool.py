"""The pool of a process: whoever is cancelled, and whenever, it keeps all of its connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator

import pytest

from database import Database

SIZE = 4


@pytest.fixture
async def pool(database_url: str) -> AsyncGenerator[Database]:
    opened = Database(database_url, name="pool", size=SIZE)
    await opened.open()
    yield opened
    await opened.close()


async def take_all(pool: Database) -> int:
    """Return how many connections the pool gives to those who hold what they get."""
    async with contextlib.AsyncExitStack() as held:
        given = {id(await held.enter_async_context(pool.connection())) for _ in range(SIZE)}
    return len(given)


async def use(pool: Database, case: str) -> None:
    if case == "a transaction":
        async with pool.transaction() as connection:
            await connection.execute("select 1")
        return
    async with pool.connection() as connection:
        if case == "a statement":
            await connection.execute("select 1")


@pytest.mark.long
@pytest.mark.parametrize("case", ["nothing", "a statement", "a transaction"])
async def test_tasks_cancelled_at_any_moment_leave_all_connections_to_others(
    pool: Database, case: str
) -> None:
    chance = random.Random(1)
    for _ in range(150):
        tasks = [asyncio.create_task(use(pool, case)) for _ in range(3 * SIZE)]
        for task in chance.sample(tasks, len(tasks)):
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert await take_all(pool) == SIZE
