"""Postgres: one pool a process, plain SQL, and notifications between processes.

All SQL stands in `models/`; its functions take a `Connection`. A connection from `connection()` commits
each statement by itself; `transaction()` commits all of its block or none.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson
import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL, Identifier
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool

import logs

Connection = AsyncConnection[DictRow]

_log = logs.get(__name__)
_COALESCE_SECONDS = 0.005
# A server that has vanished without a word is noticed within half a minute, not after the system's hours.
_CONNECTING: dict[str, Any] = {
    "connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
    # Where the URL names several servers, or one that has become a standby: the one that takes writes.
    "target_session_attrs": "read-write",
}  # fmt: skip
_RECONNECT_SECONDS = 5
# A server that refuses is asked again after pauses that grow, by one of the process; the others wait so long.
_FIRST_PAUSE, _LONGEST_PAUSE, _WAIT_SECONDS, _LOOK_SECONDS = 0.1, 1.0, 5.0, 0.05
_OPTIONS = "-c statement_timeout=30s -c idle_in_transaction_session_timeout=60s -c timezone=UTC"

AWAY: tuple[type[psycopg.Error], ...] = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
)
"""What is raised while the database is away: it cannot be reached, or takes no writes. To be tried again.

It takes no writes while it fails over, and where its provider has made it read-only, its disk being full.
"""

set_json_dumps(orjson.dumps)
set_json_loads(orjson.loads)


async def _check_writable(connection: Connection) -> None:
    """Throw away a connection whose server has said, with an answer of before, that it takes no writes.

    Raises:
        psycopg.errors.ReadOnlySqlTransaction: the pool gives another connection in its place.
    """
    for name in (b"in_hot_standby", b"default_transaction_read_only"):
        if connection.pgconn.parameter_status(name) == b"on":
            await connection.close()
            raise psycopg.errors.ReadOnlySqlTransaction("The server takes no writes any more.")


@dataclass
class _Way:
    """The way to a server that may refuse connections, as while it starts.

    Attributes:
        shut_until: until then nobody tries.
        pause: how long it is shut after another refusal; 0 while it is open.
        error: that the last attempt ended with.
    """

    shut_until: float = 0.0
    pause: float = 0.0
    error: psycopg.OperationalError | None = None

    async def wait(self) -> None:
        """Wait for one's turn to try.

        Raises:
            psycopg.OperationalError: the server refuses others all the while.
        """
        began = time.monotonic()
        while (now := time.monotonic()) < self.shut_until:
            if now - began > _WAIT_SECONDS:
                raise psycopg.OperationalError("The server refuses connections.") from self.error
            await asyncio.sleep(_LOOK_SECONDS)
        if self.pause:
            self.shut_until = now + self.pause

    def note(self, error: psycopg.OperationalError | None) -> None:
        """Note how an attempt has ended."""
        self.error = error
        self.pause = 0.0 if error is None else min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * self.pause))
        self.shut_until = 0.0 if error is None else time.monotonic() + self.pause


_ways: defaultdict[str, _Way] = defaultdict(_Way)


class _Connection(AsyncConnection[DictRow]):
    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:  # pyright: ignore
        way = _ways[conninfo]
        await way.wait()
        try:
            connection = await super().connect(conninfo, **options)
        except psycopg.OperationalError as error:
            way.note(error)
            raise
        way.note(None)
        return connection


class Database:
    """The process's pool of connections to one Postgres database.

    Attributes:
        url: of the database.
        name: the `application_name` of its connections.
        is_away: whether the last request for a connection failed.
    """

    def __init__(self, url: str, *, name: str, size: int = 8, options: str = "") -> None:
        """Prepare the pool.

        Args:
            url: a libpq connection URL.
            name: the `application_name`, seen in `pg_stat_activity`.
            size: the most connections held at once.
            options: for the server, beside those that all connections have.
        """
        self.url = url
        self.name = name
        self.is_away = False
        self._lent = 0
        self._returning: set[asyncio.Task[None]] = set()
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            connection_class=_Connection,
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "application_name": name,
                "options": f"{_OPTIONS} {options}",
                **_CONNECTING,
            },
            check=_check_writable,
            min_size=1,
            max_size=size,
            timeout=5,
            # Pauses between attempts grow until then. The next request for a connection begins anew.
            reconnect_timeout=_RECONNECT_SECONDS,
            open=False,
            name=name,
        )

    async def open(self, timeout: float = 10) -> None:
        """Connect, waiting at most `timeout` seconds for the first connection."""
        await self._pool.open(wait=True, timeout=timeout)

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Lend a connection on which each statement commits by itself."""
        try:
            connection = await self._pool.getconn()
        except psycopg.OperationalError:
            self.is_away = True
            raise
        self.is_away = False
        self._lent += 1
        try:
            async with connection:
                yield connection
        finally:
            # The pool waits for a lock while it takes a connection back. A task that is cancelled in that
            # moment would leave the connection with nobody, so a task of its own returns it.
            returning = asyncio.create_task(self._pool.putconn(connection), name="return connection")
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            await asyncio.shield(returning)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A connection inside one transaction: committed when the block ends, rolled back when it raises."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def is_stuck(self) -> bool:
        """Find out whether the pool gives nobody a connection though the database accepts a new one."""
        lent = self._lent
        try:
            async with self.connection():
                return False
        except psycopg.Error:
            pass
        try:
            connection = await self.dedicated()
        except psycopg.Error:
            return False
        await connection.close()
        return lent == self._lent

    async def dedicated(self, *, options: str = "") -> Connection:
        """A connection outside the pool, for what outlives a request. The caller closes it."""
        return await _Connection.connect(
            self.url,
            autocommit=True,
            row_factory=dict_row,
            application_name=self.name,
            options=f"{_OPTIONS} {options}",
            **_CONNECTING,
        )


class Notifier:
    """Tells other processes that something changed, at most once per channel and 5 ms.

    Never inside the transaction that made the change: NOTIFY there takes a lock that lines all commits up
    (measured: 15,300 commits/s fall to 4,400). A notification is a hint; whoever waits for one also looks
    by itself now and then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: dict[tuple[str, str], None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin sending."""
        self._task = asyncio.create_task(self._run(), name="notifier")

    async def stop(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def notify(self, channel: str, payload: str = "") -> None:
        """Have `payload` sent on `channel` shortly. Call it after the commit."""
        self._pending[channel, payload] = None
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                connection = await self._database.dedicated(options="-c synchronous_commit=off")
                async with connection:
                    await self._send(connection)
            except psycopg.Error as error:
                _log.warning("notifier_reconnecting", error=str(error))
                await asyncio.sleep(1)

    async def _send(self, connection: Connection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._pending = self._pending, {}
            channels = [channel for channel, _ in batch]
            payloads = [payload for _, payload in batch]
            await connection.execute("select notify_1(%s::text[], %s::text[])", (channels, payloads))
            await asyncio.sleep(_COALESCE_SECONDS)


class Listener:
    """Hears notifications and hands each payload to its channel's handler; reconnects by itself."""

    def __init__(self, database: Database, handlers: Mapping[str, Callable[[str], None]]) -> None:
        self._database = database
        self._handlers = handlers
        self._task: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()
        self.connections = 0

    def start(self) -> None:
        """Begin to listen."""
        self._task = asyncio.create_task(self._run(), name="listener")

    async def stop(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                connection = await self._database.dedicated()
                async with connection:
                    for channel in self._handlers:
                        await connection.execute(SQL("listen {}").format(Identifier(channel)))
                    self.connections += 1
                    self.connected.set()
                    async for message in connection.notifies():
                        self._handlers[message.channel](message.payload)
            except psycopg.Error as error:
                _log.warning("listener_reconnecting", error=str(error))
            finally:
                self.connected.clear()
            await asyncio.sleep(1)
