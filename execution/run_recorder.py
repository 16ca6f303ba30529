"""The recorder of runs: all changes of a worker that wait at a moment are written in one transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

import psycopg

import logs
from database import AWAY, Database
from execution import observation
from micro_batcher import MicroBatcher
from models.runs import run_results, run_writes
from models.runs.run_writes import Change, End
from models.runs.runs import FINISHED_CHANNEL, QUEUED_CHANNEL, join_ids
from notifications import Notifier
from outbound.lease import LeaseLost
from pipelined import Notifications

_log = logs.get(__name__)
_MOST, _IN_FLIGHT = 256, 2
# The timeout finds rows that another transaction has locked, so that they do not delay the others.
_PARAMETERS = {"lock_timeout": "1s"}
# Errors that Postgres raises because of the data, and would raise again.
_ITS_OWN_FAULT = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.ProgramLimitExceeded,
    # psycopg counts it among the errors of a database that is away.
    psycopg.errors.StatementTooComplex,
)
# For so long a process that stops waits for the database; then others take over its runs.
_AWAY_SECONDS = 5.0
_AGAIN_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)


class DatabaseAway(LeaseLost):
    """This process stops while the database is away: other workers take over its runs."""


class StaleProgress(Exception):
    """Another writer has changed the run's progress since it was read: read it again."""


class UnstorableRecord(Exception):
    """Postgres will never accept this data of a run."""


class _NextGroup(Exception):
    """This group contains another change of the same run: this change goes with the next group."""


class RunRecorder:
    """Writes changes, and notifies of the runs that have ended.

    It has connections of its own, so that it works even if the rest of the worker uses up the others.

    Attributes:
        database: the pool of these connections.
        on_error: called with the reason why a write waits.
        stopping: whether this process stops: then writes fail once the database has been away for 5 seconds.
        has_given_up: whether they fail now.
    """

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self.database = Database(
            database.url, name="vedette writer", size=_IN_FLIGHT + 1, parameters=_PARAMETERS
        )
        self._notifier = notifier
        self.on_error: Callable[[Exception], object] = lambda _: None
        self.stopping = self.has_given_up = False
        self._away_since: float | None = None
        self._batcher = MicroBatcher(
            self._write_many, size=lambda change: change.size, most=_MOST, in_flight=_IN_FLIGHT
        )

    async def write(self, change: Change) -> bool:
        """Write a change. While the database is away, this waits; a lost run is detected by the write itself.

        Returns:
            Whether the run still belonged to this carrier.

        Raises:
            UnstorableRecord: Postgres will never accept this data.
            DatabaseAway: this process stops, and the database has been away for 5 seconds.
            StaleProgress: the row has another progress than the change expects.
        """
        tries = 0
        while True:
            try:
                written = await self._batcher.submit(change)
            except _ITS_OWN_FAULT as error:
                raise UnstorableRecord(str(error)) from error
            except _NextGroup:
                continue
            except (*AWAY, psycopg.ProgrammingError) as error:
                # Results are kept for any error of the database: no call is executed again because of one.
                self.on_error(error)
                self._note_away()
                if self.has_given_up:
                    raise DatabaseAway(str(error)) from error
                _log.info("writing_waits", run_id=str(change.run_id), error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS[min(tries, len(_AGAIN_SECONDS) - 1)])
                tries += 1
            else:
                self._away_since, self.has_given_up = None, False
                if written:
                    observation.note_written(change)
                if not written and tries and isinstance(change.then, End):
                    # An earlier try may have ended the run, and its reply was lost.
                    self._notifier.notify(FINISHED_CHANNEL, str(change.run_id))
                return written

    def _note_away(self) -> None:
        now = time.monotonic()
        self._away_since = self._away_since or now
        self.has_given_up = self.stopping and now - self._away_since >= _AWAY_SECONDS

    async def _write_many(self, asked: list[Change]) -> list[bool | Exception]:
        changes = _merge_records(asked)
        # A former carrier of a run in this process may write beside its current one.
        first = {change.run_id: change for change in reversed(changes)}
        # Changes of a parent and its child go into two groups, because each may change the other's row.
        first = {
            run_id: change
            for run_id, change in first.items()
            if change.parent_run_id is None or change.parent_run_id not in first
        }
        async with self.database.connection() as connection:
            written, busy, queued_others, stale = await run_writes.record_changes_if_claimed(
                connection, list(first.values()), _announce
            )
        if queued_others:
            self._notifier.notify(QUEUED_CHANNEL)
        return [
            _NextGroup()
            if first.get(change.run_id) is not change
            else _lock_error()
            if change.run_id in busy
            else StaleProgress()
            if change.run_id in stale
            else change.run_id in written
            for change in changes
        ]


def _announce(changes: Sequence[Change]) -> Notifications:
    """Return the notifications of the runs that have ended: first their results."""
    ended = [change.run_id for change in changes if isinstance(change.then, End)]
    return [
        *((run_results.RESULT_CHANNEL, payload) for payload in run_results.write_payloads(changes)),
        *((FINISHED_CHANNEL, ids) for ids in join_ids(ended)),
    ]


def _merge_records(changes: list[Change]) -> list[Change]:
    """Merge the records of each run, so that parallel steps are written at once; one result a change."""
    parts: dict[tuple[UUID, UUID], list[Change]] = {}
    for change in changes:
        if change.then is None:
            parts.setdefault((change.run_id, change.claim_id), []).append(change)
    merged = {
        key: some[0]
        if len(some) == 1
        else replace(some[0], records=[record for one in some for record in one.records])
        for key, some in parts.items()
    }
    return [merged[one.run_id, one.claim_id] if one.then is None else one for one in changes]


def _lock_error() -> psycopg.OperationalError:
    """Return the error that makes a change be retried by itself."""
    return psycopg.errors.LockNotAvailable("this run or its parent is written by somebody else")
