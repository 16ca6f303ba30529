"""A server that refuses connections, as while it starts, is not asked by everybody again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import psycopg

from database import Database

_CALLERS, _REFUSES_SECONDS = 20, 3.0


@asynccontextmanager
async def refusing_for_a_while(url: str, times: list[float]) -> AsyncGenerator[str]:
    """A way to the server that is shut for a while from when it is first tried."""
    there = urlsplit(url)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        times.append(time.monotonic())
        if times[-1] - times[0] < _REFUSES_SECONDS:
            writer.close()
            return
        socket = f"{psycopg.conninfo.conninfo_to_dict(url).get('host')}"
        if socket.startswith("/"):
            port = psycopg.conninfo.conninfo_to_dict(url).get("port") or 5432
            back, way = await asyncio.open_unix_connection(f"{socket}/.s.PGSQL.{port}")
        else:
            back, way = await asyncio.open_connection(there.hostname, there.port)
        await asyncio.gather(pump(reader, way), pump(back, writer), return_exceptions=True)

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=port)
    server.close()


async def test_a_server_that_refuses_is_asked_by_one_at_a_time_and_by_all_once_it_answers(
    database_url: str,
) -> None:
    times: list[float] = []
    async with refusing_for_a_while(database_url, times) as url:
        database = Database(url, name="refused")

        async def connect() -> None:
            while True:
                try:
                    connection = await database.connect_dedicated()
                except psycopg.OperationalError:
                    continue
                await connection.close()
                return

        await asyncio.gather(*(connect() for _ in range(_CALLERS)))
    refused = [at for at in times if at - times[0] < _REFUSES_SECONDS]
    # All that tried before the first was refused, and then one after each pause.
    assert _CALLERS <= len(times) and len(refused) <= _CALLERS + 10
    assert times[-1] - times[0] < _REFUSES_SECONDS + 2
