"""Writing what became of runs: all that a worker has to write at a moment goes in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from uuid import UUID

import psycopg

import logs
from database import AWAY, Database, Notifier
from micro_batcher import MicroBatcher
from models import leases, run_writes
from models.leases import Lease, News
from models.run_writes import Change, End
from models.runs import FINISHED_CHANNEL, QUEUED_CHANNEL

_log = logs.get(__name__)
_MOST, _IN_FLIGHT = 256, 2
# A row that somebody else has locked is found out, so that it holds up no others.
_OPTIONS = "-c lock_timeout=1s"
# What the database says of data, and will say of them again.
_ITS_OWN_FAULT = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
_AGAIN_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)
# A notification has less than 8,000 bytes.
_IDS_IN_A_NOTIFICATION = 200


class Refused(Exception):
    """The database will never take what was to be written of a run: its data is to blame."""


class RunWriter:
    """Writes changes, and tells of the runs that have ended.

    It has connections of its own: whatever else the worker does with the database, this goes on.

    Attributes:
        database: the pool of these connections.
    """

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self.database = Database(database.url, name="vedette writer", size=_IN_FLIGHT + 1, options=_OPTIONS)
        self._notifier = notifier
        self._batcher = MicroBatcher(
            self._write_many, size=lambda change: change.size, most=_MOST, in_flight=_IN_FLIGHT
        )

    async def open(self) -> None:
        """Connect."""
        await self.database.open()

    async def close(self) -> None:
        """Disconnect."""
        await self.database.close()

    async def write(self, change: Change) -> bool:
        """Write a change. While the database is away, this waits: who has lost a run learns it from there.

        Returns:
            Whether the run was still this executor's.

        Raises:
            Refused: never, with these data.
        """
        tries = 0
        while True:
            try:
                written = await self._batcher.submit(change)
            except _ITS_OWN_FAULT as error:
                raise Refused(str(error)) from error
            except AWAY as error:
                _log.info("writing_waits", run_id=str(change.run_id), error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS[min(tries, len(_AGAIN_SECONDS) - 1)])
                tries += 1
            else:
                if not written and tries and isinstance(change.then, End):
                    # An earlier try may have been the one that ended it, and its reply lost.
                    self._notifier.notify(FINISHED_CHANNEL, str(change.run_id))
                return written

    async def beat(self, held: Collection[Lease], run_ids: Collection[UUID]) -> tuple[set[UUID], News]:
        """Prove that this process lives: which batches it still has, and what has become of these runs.

        Raises:
            psycopg.Error: one of `AWAY`.
        """
        async with self.database.connection() as connection:
            kept = await leases.renew(connection, held)
            return kept, await leases.find_news(connection, run_ids)

    async def _write_many(self, changes: list[Change]) -> list[bool | Exception]:
        # An executor of this process that was overtaken may write of a run beside the one that has it now.
        first = {change.run_id: change for change in reversed(changes)}
        # What is done to a parent and its child goes in two groups: each may change the other's row.
        first = {
            run_id: change
            for run_id, change in first.items()
            if change.parent_run_id is None or change.parent_run_id not in first
        }
        async with self.database.connection() as connection:
            written, busy, queued_others = await run_writes.record_changes_if_leased(
                connection, list(first.values())
            )
        ended = [
            str(change.run_id)
            for change in first.values()
            if isinstance(change.then, End) and change.run_id in written
        ]
        for start in range(0, len(ended), _IDS_IN_A_NOTIFICATION):
            self._notifier.notify(FINISHED_CHANNEL, ",".join(ended[start : start + _IDS_IN_A_NOTIFICATION]))
        if queued_others:
            self._notifier.notify(QUEUED_CHANNEL)
        return [
            _another_group()
            if first.get(change.run_id) is not change or change.run_id in busy
            else change.run_id in written
            for change in changes
        ]


def _another_group() -> psycopg.OperationalError:
    """What makes a change go again, by itself."""
    return psycopg.errors.LockNotAvailable("this run or its parent is written by somebody else")
