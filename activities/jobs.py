"""The activities of bulk jobs: looking up the targets of a chunk, and ending a job."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
from temporalio import activity

import logs
from concurrency import ConcurrencyLimiter
from database import Database
from execution.heartbeat import heartbeats, worker_stops_within
from execution.lookup_step import without_database
from execution.ownership import check_workflow
from micro_batcher import MicroBatcher
from models.errors import DomainError
from models.events import events
from models.jobs import completion, jobs, queue
from models.jobs.queue import Chunk, RowAnswer, TargetRow
from models.lookups.lookups import AllProvidersFailed
from notifications import Notifier
from providers.lookup.composition import Selection
from providers.lookup.counting import count_sources
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.lookup.result import LookupResult
from providers.lookup.waiter import Waiter
from sealing import Keyring
from services import pacing
from services.jobs import limit_of, record_answer, record_failure
from temporal.starts import job_workflow_id
from workflows.messages import FINISH_JOB, LOOK_UP_ROWS, ChunkResult

_log = logs.get(__name__)
# The lookups of jobs at a time in this process; one account alone has half of these places.
_PLACES = 64
_BATCH_ROWS, _IN_FLIGHT = 128, 2
# The answers that are written as JSON between two turns of the event loop: about 1 ms.
_WRITTEN_AT_ONCE = 32
# A longer wait is a timer of the workflow, which checks again at least once an hour.
_PAUSE_SECONDS, _HOUR_SECONDS = 20.0, 3600.0


class JobActivities:
    """The activities of jobs."""

    def __init__(self, database: Database, notifier: Notifier, lookups: Lookups, keyring: Keyring) -> None:
        """Create the activities.

        Args:
            database: the database with the jobs.
            notifier: notifies the followers of a job, and dispatchers of its end.
            lookups: the lookups of this process.
            keyring: hashes the queries whose results are paid in blocks.
        """
        self._database = database
        self._notifier = notifier
        self._lookups = lookups
        self._keyring = keyring
        self._places = ConcurrencyLimiter(_PLACES)
        self._recorder = MicroBatcher(
            self._record_many, size=lambda one: one.size, most=_BATCH_ROWS, in_flight=_IN_FLIGHT
        )

    @activity.defn(name=LOOK_UP_ROWS)
    async def look_up_rows(self, job_id: UUID, number: int) -> ChunkResult:
        """Look up the targets of a chunk that have no answer yet, several at a time.

        If a worker dies, the targets whose answers were not recorded are looked up again.
        """
        check_workflow(job_workflow_id(job_id))
        async with heartbeats():
            async with self._database.connection() as connection:
                chunk = await queue.open_chunk(connection, job_id, number)
            if chunk is None:
                return ChunkResult(over=True)
            work = _ChunkWork(
                chunk, self._places, self._lookups, self._recorder, self._keyring, self._restart_pace
            )
            seconds = await work.finish()
            if work.over:
                return ChunkResult(over=True)
            async with self._database.connection() as connection:
                if seconds:
                    await queue.mark_waiting(connection, job_id, seconds)
                else:
                    await queue.close_chunk(connection, job_id, number)
            self._notifier.notify(jobs.PROGRESS_CHANNEL, str(job_id))
            return ChunkResult(seconds)

    @activity.defn(name=FINISH_JOB)
    async def finish_job(self, job_id: UUID) -> None:
        """End a job whose targets have all been looked up."""
        check_workflow(job_workflow_id(job_id))
        async with self._database.transaction() as connection:
            ended = await completion.finish(connection, job_id)
        self.notify(job_id, ended=ended)

    def notify(self, job_id: UUID, *, ended: bool) -> None:
        """Notify of changes of a job, and of its event if it has ended."""
        self._notifier.notify(jobs.CHANGED_CHANNEL)
        self._notifier.notify(jobs.PROGRESS_CHANNEL, str(job_id))
        if ended:
            self._notifier.notify(events.QUEUED_CHANNEL)

    async def _restart_pace(self, job_id: UUID) -> None:
        async with self._database.connection() as connection:
            await queue.restart_pace(connection, job_id)

    async def _record_many(self, found: list[RowAnswer]) -> list[bool | Exception]:
        async with self._database.transaction() as connection:
            goes_on = await queue.record(connection, found)
        for job_id in {one.job_id for one in found}:
            self._notifier.notify(jobs.PROGRESS_CHANNEL, str(job_id))
        return [*goes_on]


@dataclass
class _Row:
    """A target that is still to be looked up, not before `due`, by the loop's clock.

    Attributes:
        waits: whether it is known to wait for a source that is over its limit.
        asked: the sources that were asked while it waits for others.
    """

    wanted: TargetRow
    due: float = 0.0
    tries: int = 0
    waits: bool = False
    asked: set[str] = field(default_factory=set[str])


class _ChunkWork:
    """The work on a chunk. If sources are over their limits, it continues at their pace."""

    def __init__(
        self,
        chunk: Chunk,
        places: ConcurrencyLimiter,
        lookups: Lookups,
        recorder: MicroBatcher[RowAnswer, bool],
        keyring: Keyring,
        restart_pace: Callable[[UUID], Awaitable[None]],
    ) -> None:
        self._restart_pace = restart_pace
        self._chunk = chunk
        self._waiter = Waiter(chunk.account_id)
        self._places = places
        self._lookups = lookups
        self._recorder = recorder
        self._keyring = keyring
        self._now = asyncio.get_running_loop().time
        self._progressed = self._now() - chunk.idle_seconds
        # Until when the sources are over their limits.
        self._open_at = 0.0
        # The sources that were found over their limits; and whether there is a new one, without which some
        # targets may be answered at once.
        self._limited: set[str] = set()
        self._look_again = False
        self.over = False

    async def finish(self) -> float:
        """Look up all targets; or return the seconds that the rest must wait, if that is long."""
        rows = [_Row(wanted) for wanted in self._chunk.targets]
        left: list[_Row] = await self._finish_known(rows)
        width = _PLACES
        while left and not self.over:
            pause = min(row.due for row in left) - self._now()
            if pause > _PAUSE_SECONDS or await worker_stops_within(pause):
                return min(pause, _HOUR_SECONDS)
            now = self._now()
            due = deque([row for row in left if row.due <= now])
            later = [row for row in left if row.due > now]
            count = len(due)
            again = await self._look_up_some(due, width)
            if self._open_at and width == _PLACES:
                await self._restart_pace(self._chunk.job_id)
            # After a limit, the next round is as wide as the number of successes in this one.
            width = max(1, min(_PLACES - 1, count - len(again))) if self._open_at else width
            left = later + again
            if self._look_again:
                left = await self._finish_known(left)
        return 0.0

    async def _finish_known(self, rows: list[_Row]) -> list[_Row]:
        """Record all targets that can be answered offline and without waiting; return the others."""
        self._look_again = False
        try:
            known = await self._known_of([row for row in rows if not row.waits])
        except psycopg.Error:
            raise
        except Exception:
            return rows  # one of them causes an error: looked up one by one, only that one fails
        recording = [self._recorder.submit(one) for one in known]
        self.over = not all(await asyncio.gather(*recording))
        done = {one.number for one in known}
        return [row for row in rows if row.wanted.number not in done]

    async def _known_of(self, rows: Sequence[_Row]) -> list[RowAnswer]:
        """Return the records of the targets that can be answered offline."""
        kind, fields, texts = self._chunk.type, self._chunk.fields, [row.wanted.target for row in rows]
        answers = await self._lookups.offline_answers.find_many(
            kind, texts, Selection(fields, limit=limit_of(kind)), waiter=self._waiter
        )
        known: list[RowAnswer] = []
        for row, answer in zip(rows, answers, strict=True):
            if answer is None:
                continue
            row.waits = self._wait(row, answer, 0.0) is not None
            if not row.waits:
                known.append(self._make_record(row.wanted, answer))
                if not len(known) % _WRITTEN_AT_ONCE:
                    await asyncio.sleep(0)
        return known

    def _make_record(
        self, wanted: TargetRow, result: LookupResult | DomainError, *, given_up: bool = False
    ) -> RowAnswer:
        count_sources(self._chunk.account_id, result)
        if isinstance(result, DomainError):
            return record_failure(self._chunk, wanted, result, given_up=given_up)
        return record_answer(self._chunk, wanted, result, self._keyring, given_up=given_up)

    async def _look_up_some(self, due: deque[_Row], width: int) -> list[_Row]:
        """Look up each target, `width` at a time, until one meets a limit; return the remaining ones."""
        self._open_at = 0.0
        again: list[_Row] = []

        async def take() -> None:
            while due and not self._open_at and not self._look_again and not self.over:
                row = due.popleft()
                if not await self._look_up(row):
                    again.append(row)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(width, len(due))):
                group.create_task(take())
        for row in due:
            row.due = self._open_at
        return [*again, *due]

    async def _look_up(self, row: _Row) -> bool:
        """Look up one target; return whether it is finished."""
        async with self._places.hold(str(self._chunk.account_id)):
            if self.over or self._open_at:  # may have changed while it waited for a place
                row.due = self._open_at
                return False
            try:
                record = await self._record_of(row)
            except (DomainError, psycopg.Error):
                raise  # the target is not at fault: the rest must be looked up again
            except Exception as error:
                # A fault of our code must not block the other targets of the job for ever.
                job_id, number = str(self._chunk.job_id), row.wanted.number
                _log.error("row_not_looked_up", job_id=job_id, number=number, exc_info=error)
                fault = DomainError("internal_error", "The answer made us fail.")
                record = record_failure(self._chunk, row.wanted, fault)
            if record is None:
                return False
            if not record.given_up:
                self._progressed = self._now()
            if not await self._recorder.submit(record):
                self.over = True
            return True

    async def _record_of(self, row: _Row) -> RowAnswer | None:
        """Return the record of one target; None if it was postponed.

        Raises:
            AllProvidersFailed: the database was away.
        """
        idle = self._now() - self._progressed
        kind, fields = self._chunk.type, self._chunk.fields
        try:
            result: LookupResult | DomainError = await self._lookups.lookup(
                kind,
                row.wanted.target,
                LookupOptions(Selection(fields, limit=limit_of(kind)), waiter=self._waiter),
            )
        except DomainError as error:
            if without_database(error):
                raise
            result = error
        limited = _limited_of(result)
        self._look_again = self._look_again or not limited <= self._limited
        self._limited |= limited
        wait = self._wait(row, result, idle)
        if wait is not None:
            self._put_off(row, *wait)
            row.asked |= _asked_of(result)
            return None
        given_up = self._wait(row, result, 0.0) is not None
        return self._make_record(row.wanted, result, given_up=given_up)

    def _wait(self, row: _Row, result: LookupResult | DomainError, idle: float) -> tuple[float, bool] | None:
        """Return how long a target waits, and whether because of limits; None if its answer is complete."""
        if isinstance(result, AllProvidersFailed):
            return pacing.wait_for_any(result, row.tries, idle, row.asked)
        if isinstance(result, DomainError):
            return None
        seconds = pacing.wait_for_more(result, self._chunk.fields, idle, row.asked)
        return None if seconds is None else (seconds, True)

    def _put_off(self, row: _Row, seconds: float, limited: bool) -> None:
        row.due = self._now() + seconds
        if limited:
            self._open_at = max(self._open_at, row.due)
        else:
            row.tries += 1


def _asked_of(result: LookupResult | DomainError) -> set[str]:
    """Return the sources that were asked; if none answered, those that reject the query."""
    if isinstance(result, AllProvidersFailed):
        return {one["name"] for one in result.details["providers"] if one["status"] == "rejected"}
    outcomes = result.outcomes if isinstance(result, LookupResult) else ()
    return {
        source.spec.name
        for source, outcome in outcomes
        if outcome.status not in ("rate_limited", "skipped") and outcome.detail != "cooling_down"
    }


def _limited_of(result: LookupResult | DomainError) -> set[str]:
    """Return the sources that were over their limits while others answered."""
    outcomes = result.outcomes if isinstance(result, LookupResult) else ()
    return {source.spec.name for source, outcome in outcomes if outcome.status == "rate_limited"}
