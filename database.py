"""Postgres: one pool for each process, and plain SQL.

All SQL is in `models/`; its functions take a `Connection`. A connection from `connection()` commits each
statement by itself; `transaction()` commits all statements of its block or none.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, Self

import orjson
import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

import logs
import metrics
from concurrency import ConcurrencyLimiter
from notifications import Listener

Connection = AsyncConnection[DictRow]

_log = logs.get(__name__)
# A server that vanished without a message is noticed within half a minute, instead of the system's hours.
_CONNECTING: dict[str, Any] = {
    "connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
    # If the URL names several servers, or one that has become a standby: the one that accepts writes.
    "target_session_attrs": "read-write",
}  # fmt: skip
_RECONNECT_SECONDS = 5
_POOL_SECONDS, _TURN_SECONDS = 5.0, 15.0
# A server that refuses connections is tried again by one task of the process, after growing pauses; the
# others wait this long.
_FIRST_PAUSE, _LONGEST_PAUSE, _WAIT_SECONDS, _LOOK_SECONDS = 0.1, 1.0, 5.0, 0.05
# They stand above the server's. A time for whole transactions would end those that only wait for their turn.
_PARAMETERS = {
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    "transaction_timeout": "0",
    "timezone": "UTC",
}
_CHORE_TIMEOUT = "10min"
# By a statement, because PgBouncer takes no parameters with a new connection.
_SET: LiteralString = (
    "select set_config(name, value, false) from unnest(%s::text[], %s::text[]) given (name, value)"
)

AWAY: tuple[type[psycopg.Error], ...] = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
)
"""The errors while the database is away: it cannot be reached, or accepts no writes. Try again later.

It accepts no writes during a failover, and after its provider has made it read-only because its disk is full.
"""


class ConnectionsBusy(PoolTimeout):
    """Others use all connections, or the same borrower its share of them. The database itself is there."""


set_json_dumps(orjson.dumps)
set_json_loads(orjson.loads)


async def _check_writable(connection: Connection) -> None:
    """Close a connection whose server has reported, with an earlier answer, that it accepts no writes.

    Raises:
        psycopg.errors.ReadOnlySqlTransaction: the pool returns another connection instead.
    """
    for name in (b"in_hot_standby", b"default_transaction_read_only"):
        if connection.pgconn.parameter_status(name) == b"on":
            await connection.close()
            raise psycopg.errors.ReadOnlySqlTransaction("The server takes no writes any more.")


@dataclass
class _Way:
    """The back-off for a server that refuses connections, for example while it starts.

    Attributes:
        shut_until: the time until which no attempt is made.
        pause: the pause after another refusal; 0 while connections succeed.
        error: of the last attempt.
        noted_at: the time of the last attempt.
    """

    shut_until: float = 0.0
    pause: float = 0.0
    error: psycopg.OperationalError | None = None
    noted_at: float = 0.0

    async def wait(self) -> None:
        """Wait until this task may try.

        Raises:
            psycopg.OperationalError: the server refuses the attempts of other tasks all the time.
        """
        began = time.monotonic()
        while (now := time.monotonic()) < self.shut_until:
            if now - began > _WAIT_SECONDS:
                raise psycopg.OperationalError("The server refuses connections.") from self.error
            await asyncio.sleep(_LOOK_SECONDS)
        if self.pause:
            self.shut_until = now + self.pause

    def note(self, error: psycopg.OperationalError | None) -> None:
        """Record the result of an attempt."""
        former, self.noted_at = self.noted_at, time.monotonic()
        if self.error is not None:
            metrics.AWAY.add(self.noted_at - former, "database")
        self.error = error
        self.pause = 0.0 if error is None else min(_LONGEST_PAUSE, max(_FIRST_PAUSE, 2 * self.pause))
        self.shut_until = 0.0 if error is None else time.monotonic() + self.pause


_ways: defaultdict[str, _Way] = defaultdict(_Way)


class _Connection(AsyncConnection[DictRow]):
    @classmethod
    async def connect(  # pyright: ignore
        cls, conninfo: str = "", *, parameters: Mapping[str, str], **options: Any
    ) -> Self:
        way = _ways[conninfo]
        await way.wait()
        try:
            connection = await super().connect(conninfo, **options)
            await connection._set_parameters(parameters)
        except psycopg.OperationalError as error:
            way.note(error)
            raise
        way.note(None)
        return connection

    async def _set_parameters(self, parameters: Mapping[str, str]) -> None:
        """Set parameters of the session; close the connection if that fails or takes too long."""
        try:
            async with asyncio.timeout(_CONNECTING["connect_timeout"]):
                await self.execute(_SET, (list(parameters), list(parameters.values())))
        except TimeoutError:
            await self.close()
            raise psycopg.errors.ConnectionTimeout("The server does not answer.") from None
        except BaseException:
            await self.close()
            raise


class Database:
    """The process's pool of connections to one Postgres database.

    Attributes:
        url: of the database.
        name: the `application_name` of its connections.
        listener: receives the notifications for all parts of the process, by one connection.
        is_away: whether the last request for a connection failed because the database is away.
    """

    def __init__(
        self, url: str, *, name: str, size: int = 8, parameters: Mapping[str, str] | None = None
    ) -> None:
        """Create the pool, without connections.

        Args:
            url: a libpq connection URL.
            name: the `application_name`, visible in `pg_stat_activity`.
            size: the highest number of connections.
            parameters: of the sessions, in addition to those of all connections.
        """
        self.url = url
        self.name = name
        self.listener = Listener(self)
        self.is_away = False
        self._chores = asyncio.Lock()
        self._size = size
        self._lent = self._out = 0
        # A borrower alone gets two connections fewer than there are, of the usual six.
        self._shares = ConcurrencyLimiter(size + 2)
        self._borrowers: weakref.WeakKeyDictionary[asyncio.Task[Any], str] = weakref.WeakKeyDictionary()
        self._returning: set[asyncio.Task[None]] = set()
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            connection_class=_Connection,
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "application_name": name,
                "parameters": _PARAMETERS | dict(parameters or {}),
                **_CONNECTING,
            },
            check=_check_writable,
            min_size=1,
            max_size=size,
            timeout=_POOL_SECONDS,
            # Pauses between attempts grow until this time. The next request for a connection begins anew.
            reconnect_timeout=_RECONNECT_SECONDS,
            open=False,
            name=name,
        )

    async def open(self, timeout: float = 10) -> None:
        """Connect, waiting at most `timeout` seconds for the first connection."""
        await self._pool.open(wait=True, timeout=timeout)

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        await self.listener.stop()
        await self._pool.close()

    def lend_to(self, borrower: str) -> None:
        """Lend connections to the current task as to one of this borrower's.

        A borrower with many tasks so leaves connections to others. Tasks that it starts have no borrower.
        """
        if task := asyncio.current_task():
            self._borrowers[task] = borrower

    def connection(self, *, shared: bool = False) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection on which each statement commits by itself, in the borrower's turn.

        Args:
            shared: out of turn, for a task that holds a lock which other borrowers need.

        Raises:
            ConnectionsBusy: none became free, though the database is there.
            psycopg.OperationalError: the database is away.
        """
        task = asyncio.current_task()
        borrower = self._borrowers.get(task) if task else None
        if task is None or borrower is None or shared or self.is_away:
            return self._lend(task)
        return self._lend_in_turn(task, borrower)

    @asynccontextmanager
    async def _lend_in_turn(self, task: asyncio.Task[Any], borrower: str) -> AsyncGenerator[Connection]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_TURN_SECONDS):
                    await stack.enter_async_context(self._shares.hold(borrower))
            except TimeoutError:
                raise ConnectionsBusy(f"no turn within {_TURN_SECONDS:.0f} s") from None
            # A second connection within the block of the first needs no second turn: it might never come.
            del self._borrowers[task]
            stack.callback(self._borrowers.__setitem__, task, borrower)
            yield await stack.enter_async_context(self._lend(task))

    @asynccontextmanager
    async def _lend(self, task: asyncio.Task[Any] | None) -> AsyncGenerator[Connection]:
        began = time.perf_counter()
        cancels = task.cancelling() if task else 0
        try:
            connection = await self._pool.getconn()
        except psycopg.OperationalError as error:
            if isinstance(error, PoolTimeout) and self._out >= self._size:
                raise ConnectionsBusy(f"all {self._size} connections are lent") from None
            self.is_away = True
            raise
        metrics.POOL_WAIT.observe(time.perf_counter() - began, self.name)
        self.is_away = False
        self._lent += 1
        self._out += 1
        try:
            # The pool waits by `wait_for`, which in Python 3.11 loses a cancellation that comes as the
            # connection does: a task that runs until it is cancelled would go on for ever.
            if task and task.cancelling() > cancels:
                raise asyncio.CancelledError
            async with connection:
                yield connection
        except psycopg.InternalError as error:
            # psycopg takes two last messages, of a server and of a pooler before it, for a fault of its own.
            if error.sqlstate is not None or not connection.broken:
                raise
            raise psycopg.OperationalError(str(error)) from error
        finally:
            # The pool waits for a lock while it takes a connection back. A task that is cancelled in that
            # moment would lose the connection, so a separate task returns it.
            returning = asyncio.create_task(self._pool.putconn(connection), name="return connection")
            self._out -= 1
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            await asyncio.shield(returning)

    @asynccontextmanager
    async def transaction(self, *, shared: bool = False) -> AsyncGenerator[Connection]:
        """Lend a connection in one transaction: committed when the block ends, rolled back on an error.

        Arguments and errors are those of `connection`.
        """
        async with self.connection(shared=shared) as connection, connection.transaction():
            yield connection

    async def is_stuck(self) -> bool:
        """Return whether the pool lends no connection although the database accepts a new one."""
        lent = self._lent
        try:
            async with self.connection():
                return False
        except psycopg.Error:
            pass
        try:
            connection = await self.connect_dedicated()
        except psycopg.Error:
            return False
        await connection.close()
        return lent == self._lent

    @asynccontextmanager
    async def chore_connection(self) -> AsyncGenerator[Connection]:
        """Lend the one connection that chores take in turns; its statements may take ten minutes.

        Chores are due at the same time, and would leave no connection to others.
        """
        async with self._chores, self.connection() as connection:
            await connection.execute(_SET, (["statement_timeout"], [_CHORE_TIMEOUT]))
            try:
                yield connection
            finally:
                if not connection.broken:
                    await connection.execute(
                        _SET, (["statement_timeout"], [_PARAMETERS["statement_timeout"]])
                    )

    async def connect_dedicated(self, *, parameters: Mapping[str, str] | None = None) -> Connection:
        """Return a connection outside the pool, for use beyond a request. The caller closes it."""
        return await _Connection.connect(
            self.url,
            autocommit=True,
            row_factory=dict_row,
            application_name=self.name,
            parameters=_PARAMETERS | dict(parameters or {}),
            **_CONNECTING,
        )
