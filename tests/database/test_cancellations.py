"""A task that is cancelled while it waits for a connection ends, also if that comes at the same moment."""

from __future__ import annotations

import asyncio

from database import Database


async def test_a_cancellation_that_comes_with_a_connection_ends_the_task(database_url: str) -> None:
    database = Database(database_url, name="small", size=1)
    await database.open()
    for turns in range(8):
        free = asyncio.Event()

        async def lend(until: asyncio.Event) -> None:
            async with database.connection():
                await until.wait()

        first = asyncio.create_task(lend(free))
        await asyncio.sleep(0)
        second = asyncio.create_task(lend(asyncio.Event()))
        await asyncio.sleep(0)
        free.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        second.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait({first, second})
        assert second.cancelled()
    async with database.connection() as connection:
        await connection.execute("select 1")
    await database.close()
