"""The background work of the API process: writing counters and what is late, deleting expired rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeAlias
from uuid import UUID

import psycopg

import logs
from database import AWAY, Connection, Database
from models import idempotency, limits
from models.accounts import keys, known_addresses, sessions, sign_in_links
from models.lookups import source_quotas
from models.runs import run_counts
from models.stats import entries

_FLUSH_SECONDS = 1.0
_ROLL_UP_SECONDS = 5.0
_CLEAN_SECONDS = 60.0

_log = logs.get(__name__)

Write: TypeAlias = Callable[[Connection], Awaitable[None]]
"""A statement that may be repeated."""


class Housekeeping:
    """Counts uses of keys in memory and writes them once a second, in one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses: dict[UUID, tuple[int, datetime]] = {}
        self._late: list[tuple[float, Write]] = []
        self._cleaned = self._rolled_up = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run(), name="housekeeping")

    async def stop(self) -> None:
        """Write the remaining counters, and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._turn()

    def count_use(self, key_id: UUID) -> None:
        """Count a request made with the key."""
        count, _ = self._uses.get(key_id, (0, None))
        self._uses[key_id] = (count + 1, datetime.now(UTC))

    def write_later(self, write: Write, seconds: float) -> None:
        """Write what failed because the database was away, as soon as it is back within this time."""
        self._late.append((time.monotonic() + seconds, write))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            await self._turn()

    async def _turn(self) -> None:
        try:
            await self._write_late()
            await self.flush()
            if time.monotonic() - self._rolled_up > _ROLL_UP_SECONDS:
                self._rolled_up = time.monotonic()
                await self._roll_up()
            if time.monotonic() - self._cleaned > _CLEAN_SECONDS:
                self._cleaned = time.monotonic()
                await self._clean()
        except psycopg.Error as error:
            _log.warning("housekeeping_failed", error=type(error).__name__, reason=str(error))

    async def _write_late(self) -> None:
        late, self._late = self._late, []
        if not late:
            return
        try:
            async with self._database.connection() as connection:
                while late:
                    await late[0][1](connection)
                    del late[0]
        except (*AWAY, asyncio.CancelledError):
            now = time.monotonic()
            self._late += [(until, write) for until, write in late if until > now]
            raise

    async def flush(self) -> None:
        """Write the counters now."""
        if not self._uses:
            return
        uses, self._uses = self._uses, {}
        try:
            async with self._database.connection() as connection:
                await keys.count_use(connection, uses)
        except BaseException:
            for key_id, (count, at) in uses.items():
                more, later = self._uses.get(key_id, (0, at))
                self._uses[key_id] = (count + more, later)
            raise

    async def _roll_up(self) -> None:
        """Add what has been counted since the last time to the statistics; another process may do it."""
        counted = entries.ENTRIES_AT_ONCE
        while counted == entries.ENTRIES_AT_ONCE:
            async with self._database.transaction() as connection:
                counted = await entries.roll_up(connection)

    async def _clean(self) -> None:
        async with self._database.connection() as connection:
            await limits.forget_ended(connection)
            await source_quotas.forget_ended(connection)
            await idempotency.forget_expired(connection)
            await sessions.forget_expired(connection)
            await sign_in_links.forget_expired(connection)
            await known_addresses.forget_old(connection)
            await run_counts.compact(connection)
            await entries.delete_old(connection)
