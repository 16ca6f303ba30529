"""The task of a process that adds its figures to the totals of the installation."""

from __future__ import annotations

import asyncio

import psycopg

import logs
import metrics
from database import Database
from models.installation import figures
from models.stats import entries

_log = logs.get(__name__)
_SECONDS, _LAST_SECONDS = 5.0, 1.0


class FigureWriter:
    """Writes every five seconds what `metrics` has counted since the last time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run(), name="figures")

    async def stop(self) -> None:
        """Write what is left if that takes no more than a second, and stop.

        The port of an API is held until it has stopped, and the next one waits for it.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                await self.write()
        except TimeoutError:
            _log.warning("figures_not_written", error="the database does not answer")

    async def write(self) -> None:
        """Write what was counted; keep it while the database is away."""
        taken, failed, tallies = metrics.take(), metrics.take_failed_runs(), metrics.take_tallies()
        if not taken and not failed and not tallies:
            return
        try:
            async with self._database.transaction() as connection:
                await figures.add(connection, taken, failed)
                await figures.delete_old_failures(connection)
                await entries.add(connection, tallies)
        except BaseException as error:
            metrics.give_back(taken, failed, tallies)
            if not isinstance(error, psycopg.Error):
                raise
            _log.warning("figures_not_written", error=str(error))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            await self.write()
