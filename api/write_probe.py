"""The check of `/readyz` that the database can write, at the price of a write every few seconds."""

from __future__ import annotations

import asyncio
import time

import psycopg

from database import Database
from models.installation.write_probe import refusal_of, try_to_write

_EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 0.5
_STUCK_SECONDS = 10.0


class WriteProbe:
    """Writes at most once in five seconds, and stores the result."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._problem: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._began = float("-inf")

    async def problem(self) -> str | None:
        """Return the obstacle to writing, or None; it waits for a slow disk only half a second."""
        now = time.monotonic()
        if (self._task is None or self._task.done()) and now - self._began >= _EVERY_SECONDS:
            self._began = now
            self._task = asyncio.create_task(self._write(), name="write probe")
        assert self._task is not None
        await asyncio.wait({self._task}, timeout=_PATIENCE_SECONDS)
        if not self._task.done() and now - self._began > _STUCK_SECONDS:
            return f"a write takes longer than {_STUCK_SECONDS:.0f} s"
        return self._problem

    async def stop(self) -> None:
        """Stop writing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        try:
            async with self._database.connection() as connection:
                await try_to_write(connection)
            self._problem = None
        except psycopg.Error as error:
            self._problem = refusal_of(error)
            if self._problem is None:
                self._began = float(
                    "-inf"
                )  # a process that reads at all reaches the same result, and reports it
