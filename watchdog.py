"""The watchdog of a process: ends it when a pool lends no connection although the database accepts one."""

from __future__ import annotations

import asyncio
import time

import logs
import process
from database import Database
from settings import ExitCode

_log = logs.get(__name__)
_LOOK_SECONDS = 5.0
_STUCK_SECONDS = 30.0


class PoolWatchdog:
    """Checks the pools of a process. Its supervisor starts the ended process again, with new pools."""

    def __init__(self, *databases: Database) -> None:
        self._stuck_since: dict[Database, float | None] = dict.fromkeys(databases)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to check."""
        self._task = asyncio.create_task(self._run(), name="pool watchdog")

    async def stop(self) -> None:
        """Stop checking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await asyncio.gather(*(self._look(database) for database in self._stuck_since))

    async def _look(self, database: Database) -> None:
        since, now = self._stuck_since[database], time.monotonic()
        if not await database.is_stuck():
            self._stuck_since[database] = None
        elif since is None:
            self._stuck_since[database] = now
        elif now - since >= _STUCK_SECONDS:
            _log.error("pool_stuck", pool=database.name, seconds=round(now - since))
            process.leave(ExitCode.UNEXPECTED)
