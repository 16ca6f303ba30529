"""Notifications between processes, over Postgres: the sender and the receiver of a process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Protocol

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.sql import SQL, Identifier

import logs

_log = logs.get(__name__)
_COALESCE_SECONDS = 0.005


class _Connects(Protocol):
    async def connect_dedicated(
        self, *, parameters: Mapping[str, str] | None = None
    ) -> AsyncConnection[DictRow]: ...


class Notifier:
    """Notifies other processes of changes, at most once per channel and 5 ms.

    It never notifies inside the transaction of the change: NOTIFY there takes a lock that serialises all
    commits (measured: 15,300 commits/s fall to 4,400). A notification is a hint; a process that waits for one
    also checks by itself from time to time.
    """

    def __init__(self, database: _Connects) -> None:
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
        """Send `payload` on `channel` shortly. Call it after the commit."""
        self._pending[channel, payload] = None
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                connection = await self._database.connect_dedicated(parameters={"synchronous_commit": "off"})
                async with connection:
                    await self._send(connection)
            except psycopg.Error as error:
                _log.warning("notifier_reconnecting", error=str(error))
                await asyncio.sleep(1)

    async def _send(self, connection: AsyncConnection[DictRow]) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._pending = self._pending, {}
            channels = [channel for channel, _ in batch]
            payloads = [payload for _, payload in batch]
            await connection.execute("select notify_1(%s::text[], %s::text[])", (channels, payloads))
            await asyncio.sleep(_COALESCE_SECONDS)


class Listener:
    """Receives notifications and passes each payload to its channel's handlers; reconnects by itself."""

    def __init__(self, database: _Connects) -> None:
        self._database = database
        self._handlers: defaultdict[str, list[Callable[[str], None]]] = defaultdict(list)
        self._task: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()
        self.connections = 0

    def add(self, handlers: Mapping[str, Callable[[str], None]]) -> None:
        """Pass the notifications of these channels on; if it listens already, it connects anew."""
        unheard = handlers.keys() - self._handlers.keys()
        for channel, handler in handlers.items():
            self._handlers[channel].append(handler)
        if unheard and self._task is not None:
            self._task.cancel()
            self._task = asyncio.create_task(self._run(self._task), name="listener")

    def remove(self, handlers: Mapping[str, Callable[[str], None]]) -> None:
        """Pass nothing more on to these handlers."""
        for channel, handler in handlers.items():
            if handler in self._handlers[channel]:
                self._handlers[channel].remove(handler)

    def start(self) -> None:
        """Begin to listen. A repetition changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="listener")

    async def stop(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    @staticmethod
    def _pass_on(handler: Callable[[str], None], payload: str) -> None:
        try:
            handler(payload)
        except Exception as error:
            # Any client of the database can notify with any payload: the others are still heard.
            _log.error("notification_not_understood", payload=payload[:100], exc_info=error)

    async def _run(self, former: asyncio.Task[None] | None = None) -> None:
        if former is not None:
            await asyncio.gather(former, return_exceptions=True)
        while True:
            try:
                connection = await self._database.connect_dedicated()
                async with connection:
                    for channel in self._handlers:
                        await connection.execute(SQL("listen {}").format(Identifier(channel)))
                    self.connections += 1
                    self.connected.set()
                    async for message in connection.notifies():
                        for handler in [*self._handlers[message.channel]]:
                            self._pass_on(handler, message.payload)
            except psycopg.Error as error:
                _log.warning("listener_reconnecting", error=str(error))
            finally:
                self.connected.clear()
            await asyncio.sleep(1)
