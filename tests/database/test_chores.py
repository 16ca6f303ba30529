"""Chores that are due together take one connection in turns, and leave the others to the process."""

from __future__ import annotations

import asyncio

import pytest

from database import Connection, Database
from tests.stacks import eventually


async def _timeout(connection: Connection) -> str:
    row = await (await connection.execute("show statement_timeout")).fetchone()
    assert row is not None
    return row["statement_timeout"]


async def test_chores_leave_connections_to_others(database_url: str) -> None:
    database = Database(database_url, name="chores", size=2)
    await database.open()
    done, at_work = asyncio.Event(), 0

    async def work() -> None:
        nonlocal at_work
        async with database.chore_connection():
            at_work += 1
            await done.wait()

    chores = [asyncio.create_task(work()) for _ in range(3)]
    await eventually(lambda: at_work == 1, what="a chore is at work")
    async with database.connection() as connection:
        await connection.execute("select 1")
    assert at_work == 1
    done.set()
    await asyncio.gather(*chores)
    assert at_work == 3
    await database.close()


async def test_only_chores_may_take_long(database_url: str) -> None:
    database = Database(database_url, name="chores", size=1)
    await database.open()
    with pytest.raises(ZeroDivisionError):
        async with database.chore_connection() as connection:
            assert await _timeout(connection) == "10min"
            raise ZeroDivisionError
    async with database.connection() as connection:
        assert await _timeout(connection) == "30s"
    await database.close()
