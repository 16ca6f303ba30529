"""The announcement of the root keys that a process holds, for as long as it serves."""

from __future__ import annotations

import asyncio
import os
import socket

import logs
from database import AWAY, Database
from models.identifiers import new_id
from models.installation import processes
from sealing import Keyring

_log = logs.get(__name__)
_SECONDS = 5.0


class KeyAnnouncer:
    """Writes and refreshes the row of this process."""

    def __init__(self, database: Database, keyring: Keyring, kind: str) -> None:
        """Prepare; `kind`: the sort of process, shown to people."""
        self._database = database
        self._keyring = keyring
        self._id = new_id()
        self._name = f"{kind} {socket.gethostname()}/{os.getpid()}"
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Announce the keys, and keep the row fresh."""
        await self._announce()
        self._task = asyncio.create_task(self._run(), name="announcer")

    async def close(self) -> None:
        """Stop, and delete the row of this process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._database.is_away:
            _log.warning("process_not_forgotten", error="the database is away")
            return
        try:
            async with self._database.connection() as connection:
                await processes.forget(connection, self._id)
        except AWAY as error:
            # A row that is not refreshed for a while counts as gone.
            _log.warning("process_not_forgotten", error=str(error))

    async def _announce(self) -> None:
        async with self._database.connection() as connection:
            await processes.announce(connection, self._id, self._name, self._keyring.fingerprints)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                await self._announce()
            except AWAY as error:
                _log.warning("keys_not_announced", error=str(error))
