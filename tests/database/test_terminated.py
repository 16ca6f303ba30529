"""A connection that ends under a statement is reported as a database that is away, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
import pytest

import database as database_module
from database import AWAY, Database

_OF_START = b"\0"  # the first byte of a message that starts a connection: a length


def _fatal(message: str) -> bytes:
    """A message of the protocol that tells of a fatal error."""
    fields = b"".join(key + value + b"\0" for key, value in ((b"S", b"FATAL"), (b"C", b"08P01")))
    body = fields + b"M" + message.encode() + b"\0\0"
    return b"E" + (len(body) + 4).to_bytes(4, "big") + body


@asynccontextmanager
async def ending(url: str, messages: list[str], *, silent: bool = False) -> AsyncGenerator[str]:
    """A way to the server that answers the next request with these errors, as a pooler does, and ends.

    It does so once there are any. PgBouncer passes on what a server says last, and adds a word of its own.
    `silent`: it answers nothing but the start of a connection, as PgBouncer before a server that hangs.
    """
    there = psycopg.conninfo.conninfo_to_dict(url)

    async def back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(65536):
            writer.write(some)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = f"{there['host']}/.s.PGSQL.{there.get('port') or 5432}"
        from_server, to_server = await asyncio.open_unix_connection(place)
        returning = asyncio.create_task(back(from_server, writer))
        while some := await reader.read(65536):
            if messages:
                writer.write(b"".join(map(_fatal, messages)))
                break
            if not silent or some[:1] == _OF_START:
                to_server.write(some)
        returning.cancel()
        writer.close()
        to_server.close()

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=port)
    server.close()


@pytest.mark.parametrize(
    "messages", [["terminating connection"], ["terminating connection", "server conn crashed?"]], ids=len
)
@pytest.mark.parametrize("begins", ["a transaction", "a transaction in one", "a statement"])
async def test_a_connection_that_ends_means_that_the_database_is_away(
    database_url: str, messages: list[str], begins: str
) -> None:
    said: list[str] = []
    async with ending(database_url, said) as url:
        database = Database(url, name="ended", size=1)
        await database.open()
        with pytest.raises(AWAY):
            if begins == "a transaction in one":
                said += messages
                async with database.transaction():
                    pass
            async with database.connection() as connection:
                said += messages
                if begins == "a statement":
                    await connection.execute("select 1")
                async with connection.transaction():
                    pass
        said.clear()
        async with database.transaction() as connection:
            await connection.execute("select 1")
        await database.close()


@pytest.mark.long
async def test_a_server_that_only_greets_is_away(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(database_module._CONNECTING, "connect_timeout", 2)
    async with ending(database_url, [], silent=True) as url:
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            await Database(url, name="greeted").connect_dedicated()


async def test_a_transaction_that_the_server_ends_for_its_length_means_that_it_is_away(
    database_url: str,
) -> None:
    """Its connection is gone, and what was asked can be asked again."""
    database = Database(database_url, name="long", size=1, parameters={"transaction_timeout": "50ms"})
    await database.open()
    with pytest.raises(AWAY) as ended:
        async with database.transaction() as connection:
            await connection.execute("select pg_sleep(10)")
    assert isinstance(ended.value, psycopg.errors.TransactionTimeout)
    await database.close()


async def test_the_length_that_a_server_allows_transactions_does_not_count_for_ours(
    database: Database,
) -> None:
    async with database.connection() as connection:
        await connection.execute("alter role current_user set transaction_timeout = '1s'")
    other = Database(database.url, name="fresh", size=1)
    await other.open()
    try:
        async with other.connection() as connection:
            cursor = await connection.execute("show transaction_timeout")
            assert await cursor.fetchall() == [{"transaction_timeout": "0"}]
    finally:
        async with database.connection() as connection:
            await connection.execute("alter role current_user reset transaction_timeout")
        await other.close()


async def test_another_internal_error_stays_one(database: Database) -> None:
    with pytest.raises(psycopg.errors.InternalError_):
        async with database.connection() as connection:
            await connection.execute("do $$ begin raise internal_error; end $$")
