"""Waiting for a run to end: woken by its notification, with a look at the row now and then."""

from __future__ import annotations

import asyncio
from uuid import UUID

from database import Database
from models import runs

_LOOK_SECONDS = 1.0


class RunWaiter:
    """Who waits for which run, in this process. `finished` is the handler of `FINISHED_CHANNEL`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def finished(self, payload: str) -> None:
        """Wake those who wait for the runs with these comma-separated ids."""
        if self._waiting:
            for run_id in payload.split(","):
                for event in self._waiting.get(run_id, ()):
                    event.set()

    async def wait(self, run_id: UUID, seconds: float) -> bool:
        """Wait until the run has ended, at most `seconds`; whether it has."""
        event, key = asyncio.Event(), str(run_id)
        self._waiting.setdefault(key, set()).add(event)
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            while not await self._has_ended(run_id):
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    return False
                try:
                    async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                        await event.wait()
                except TimeoutError:
                    continue
            return True
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]

    async def _has_ended(self, run_id: UUID) -> bool:
        async with self._database.connection() as connection:
            return await runs.has_ended(connection, run_id)
