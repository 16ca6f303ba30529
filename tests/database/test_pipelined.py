"""Pipelined transactions: all or nothing, and notifications of nothing but what was committed."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import psycopg
import pytest

from database import Connection, Database
from pipelined import pipelined_transaction
from tests.stacks import eventually

CHANNEL = "pipelined"


@pytest.fixture
async def connection(database: Database) -> AsyncGenerator[Connection]:
    """A connection with a table whose constraint is checked at the commit."""
    async with await database.connect_dedicated() as connection:
        await connection.execute("create temporary table kept (n int unique deferrable initially deferred)")
        yield connection


@pytest.fixture
async def heard(database: Database) -> AsyncGenerator[list[str]]:
    """What is notified."""
    heard: list[str] = []
    database.listener.add({CHANNEL: heard.append})
    database.listener.start()
    await database.listener.connected.wait()
    yield heard
    database.listener.remove({CHANNEL: heard.append})


async def count(connection: Connection) -> int:
    row = await (await connection.execute("select count(*)::int as n from kept")).fetchone()
    assert row is not None
    return row["n"]


async def hear_all(connection: Connection, heard: list[str]) -> list[str]:
    """Return what was notified before now."""
    await connection.execute("select pg_notify(%s, 'last')", (CHANNEL,))
    await eventually(lambda: "last" in heard, what="the last notification arrives")
    return heard[:-1]


async def test_a_block_is_committed_and_its_notifications_are_sent(
    connection: Connection, heard: list[str]
) -> None:
    async with pipelined_transaction(connection) as notifications:
        cursor = await connection.execute("insert into kept values (1), (2) returning n")
        notifications += [(CHANNEL, "a"), (CHANNEL, "b")]
    assert [row["n"] for row in await cursor.fetchall()] == [1, 2]
    assert await count(connection) == 2
    assert sorted(await hear_all(connection, heard)) == ["a", "b"]


async def test_a_result_can_be_read_within_the_block(connection: Connection) -> None:
    async with pipelined_transaction(connection):
        cursor = await connection.execute("insert into kept values (1) returning n")
        assert await cursor.fetchone() == {"n": 1}
        await connection.execute("insert into kept values (2)")
    assert await count(connection) == 2


FAILURES = {
    "a statement": ("select 1 / 0", psycopg.errors.DivisionByZero),
    "the commit": ("insert into kept values (1)", psycopg.errors.UniqueViolation),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_what_fails_stores_nothing_and_notifies_nobody(
    connection: Connection, heard: list[str], failure: str
) -> None:
    statement, error = FAILURES[failure]
    with pytest.raises(error):
        async with pipelined_transaction(connection) as notifications:
            await connection.execute("insert into kept values (1)")
            notifications.append((CHANNEL, "a"))
            await connection.execute(statement.encode())
    assert await count(connection) == 0
    assert await hear_all(connection, heard) == []


async def test_an_error_of_ours_stores_nothing_and_notifies_nobody(
    connection: Connection, heard: list[str]
) -> None:
    with pytest.raises(LookupError):
        async with pipelined_transaction(connection) as notifications:
            await connection.execute("insert into kept values (1)")
            notifications.append((CHANNEL, "a"))
            raise LookupError
    assert await count(connection) == 0
    assert await hear_all(connection, heard) == []


async def test_notifications_that_fail_do_not_fail_what_was_committed(connection: Connection) -> None:
    async with pipelined_transaction(connection) as notifications:
        await connection.execute("insert into kept values (1)")
        notifications.append(("x" * 100, "no channel has such a name"))
    assert await count(connection) == 1
