"""Writing what became of runs: all that a worker has to write at a moment goes in one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

import logs
from database import Database, Notifier
from micro_batcher import MicroBatcher
from models import leases
from models.leases import Change, End, Lease, News
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
    """

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database = Database(database.url, name="vedette writer", size=_IN_FLIGHT + 1, options=_OPTIONS)
        self._notifier = notifier
        self._batcher = MicroBatcher(
            self._write_many, size=lambda change: change.size, most=_MOST, in_flight=_IN_FLIGHT
        )

    async def open(self) -> None:
        """Connect."""
        await self._database.open()

    async def close(self) -> None:
        """Disconnect."""
        await self._database.close()

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
            except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
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
            psycopg.OperationalError: the database is away.
        """
        async with self._database.connection() as connection:
            kept = await leases.renew(connection, held)
            return kept, await leases.find_news(connection, run_ids)

    async def _write_many(self, changes: list[Change]) -> list[bool | Exception]:
        # An executor of this process that was overtaken may write of a run beside the one that has it now.
        first = {change.run_id: change for change in reversed(changes)}
        # What is done to a parent and its child goes in two statements: each may change the other's row.
        first = {
            run_id: change
            for run_id, change in first.items()
            if change.parent_run_id is None or change.parent_run_id not in first
        }
        async with self._database.connection() as connection:
            written = await leases.write(connection, list(first.values()))
        ended = [
            str(change.run_id)
            for change in first.values()
            if isinstance(change.then, End) and change.run_id in written
        ]
        for start in range(0, len(ended), _IDS_IN_A_NOTIFICATION):
            self._notifier.notify(FINISHED_CHANNEL, ",".join(ended[start : start + _IDS_IN_A_NOTIFICATION]))
        if any(_queues_others(change) for change in first.values() if change.run_id in written):
            self._notifier.notify(QUEUED_CHANNEL)
        return [
            change.run_id in written if first.get(change.run_id) is change else _another_statement()
            for change in changes
        ]


def _queues_others(change: Change) -> bool:
    end = change.then
    return isinstance(end, End) and (change.parent_run_id is not None or end.handler is not None)


def _another_statement() -> psycopg.OperationalError:
    """What makes a change go again, by itself."""
    return psycopg.errors.LockNotAvailable("another change of this run or its parent is written")
