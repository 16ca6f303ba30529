"""The executor of a worker: takes the runs of batches forward, and knows by beats which it still has.

A batch comes from a claim, and begins at once; or from `advance_runs`, when its executor has been lost. What
it does is in its rows: whoever takes over goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog

import logs
from activities.batch import Batch
from activities.execution import HeldLease
from activities.halting import FailureWatch
from activities.run_executor import RunExecutor
from activities.versions import LoadedVersion, VersionCache
from activities.writing import RunWriter
from database import AWAY, Connection, Database, Notifier
from language.records import INLINE_BYTES
from models import leases, recovery, run_loading, run_work
from models.leases import Lease
from models.run_loading import Recorded
from models.run_work import Claim, ClaimedRun
from models.runs import QUEUED_CHANNEL

_log = logs.get(__name__)
BEAT_SECONDS = 3.0
_BEAT_AGAIN_SECONDS = 0.5
# How long a batch that has nothing at work is kept for more.
_LINGER_SECONDS = 0.25
_LOOK_SECONDS = 1.0
# How much of what runs at work were started with is kept, as JSON: decoded, records take 6 times as much
# memory, small objects 25 times.
_INPUT_BYTES = 4 * 1024 * 1024


class Executor:
    """Executes batches, any number side by side."""

    def __init__(
        self,
        database: Database,
        notifier: Notifier,
        writer: RunWriter,
        runs: RunExecutor,
        failures: FailureWatch,
        *,
        worker_id: UUID,
        build: str,
    ) -> None:
        """Prepare.

        Args:
            database: where the runs are.
            notifier: tells dispatchers of runs that were queued.
            writer: beats for them.
            runs: takes each of them forward.
            failures: is told whose runs our code cannot even load.
            worker_id: this process's id among the workers.
            build: names the code, so that one can tell whether another has failed too.
        """
        self._database = database
        self._notifier = notifier
        self._writer = writer
        self._failures = failures
        self._worker_id = worker_id
        self._build = build
        self._versions = VersionCache(database)
        self._run_executor = runs
        # Held from before a claim until its runs have begun, and where a batch is closed.
        self.claiming = asyncio.Lock()
        self._batches: dict[UUID, Batch] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._beats: asyncio.Task[None] | None = None
        self._stopping = False
        # Of JSON: what runs at work were started with, as far as it is kept.
        self.input_bytes = 0

    def start(self) -> None:
        """Begin to beat."""
        self._beats = asyncio.create_task(self._beat_for_ever(), name="beats")

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, at most so long."""
        self._close_all()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    def _close_all(self) -> None:
        self._stopping = True
        for batch in self._batches.values():
            batch.joined.set()

    async def stop(self) -> None:
        """Drop what is under way: it goes back to its lanes, where others find it at once."""
        self._close_all()
        self._run_executor.dropping = True
        for task in list(self._runs.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)

    # ---- batches

    def begin(self, claim: Claim, sent_at: float) -> None:
        """Take up what was claimed, with `claiming` held. Returns at once.

        Args:
            claim: of which a new batch counts as its first beat.
            sent_at: when it was sent, by `time.monotonic()`.
        """
        batch = self._batches.get(claim.lease.batch_id)
        if batch is None:
            held = HeldLease(claim.lease, sent_at)
            batch = Batch(held, claim.account_id, claim.automation_id, claim.version, claim.lane_id)
            self._begin(batch, claim.runs, was_aside=claim.was_aside)
            self._add(batch)
        else:
            self._begin(batch, claim.runs, was_aside=claim.was_aside)

    def open_batches(self) -> dict[int, Lease]:
        """By lane, the batches that runs may join: many are one workflow then, and none waits for others."""
        return {batch.lane_id: batch.lease for batch in self._batches.values() if batch.is_open}

    async def advance(self, batch_id: UUID) -> float | None:
        """Wait until no run of a batch is at work, here or elsewhere; take it over if its executor is lost.

        Returns:
            The seconds until the first of its runs goes on; None if none waits.
        """
        while True:
            if (batch := self._batches.get(batch_id)) is not None:
                await batch.over.wait()
                if batch.held.lost:
                    continue
            async with self._database.connection() as connection:
                state = await leases.look(connection, batch_id)
                if state is None or not state.at_work:
                    return None if state is None else state.seconds
                if state.free:
                    await self._take_over(connection, batch_id)
                    continue
            await asyncio.sleep(_LOOK_SECONDS)

    async def take_up(self, batch_id: UUID) -> None:
        """Take over a batch that has runs at work and whose executor is lost, though Temporal asked nobody.

        It goes on handing tasks to a worker that is stopped, for as long as that has polls open.
        """
        async with self._database.connection() as connection:
            state = await leases.look(connection, batch_id)
            if state is not None and state.at_work and state.free and batch_id not in self._batches:
                await self._take_over(connection, batch_id)

    async def _take_over(self, connection: Connection, batch_id: UUID) -> None:
        sent_at = time.monotonic()
        taken = await leases.take_over(connection, batch_id, self._worker_id)
        if taken is None:
            return
        lost = await recovery.count_lost(connection, taken.lease) if taken.was_lost else 0
        _log.info("batch_taken_over", batch_id=str(batch_id), was_lost=taken.was_lost, gone_singly=lost)
        runs = await run_loading.load_runs(connection, batch_id)
        batch = Batch(
            HeldLease(taken.lease, sent_at),
            taken.account_id,
            taken.automation_id,
            taken.version,
            taken.lane_id,
        )
        batch.closed = True
        self._begin(batch, runs, was_aside=False)
        self._add(batch)

    def _begin(self, batch: Batch, runs: list[ClaimedRun], *, was_aside: bool) -> None:
        batch.claimed += len(runs)
        batch.joined.set()
        kept, size = self._keep_inputs(runs)
        part = asyncio.create_task(self._run_part(batch, kept, was_aside=was_aside))
        batch.parts.add(part)

        def over(part: asyncio.Task[None]) -> None:
            batch.parts.discard(part)
            self.input_bytes -= size

        part.add_done_callback(over)

    def _keep_inputs(self, runs: list[ClaimedRun]) -> tuple[list[ClaimedRun], int]:
        """Let go of inputs that are large, or have no room: the steps that need them read them from the rows.

        Returns:
            The runs, and the bytes of the inputs that they have kept.
        """
        before, kept = self.input_bytes, list[ClaimedRun]()
        for run in runs:
            if not run.unloaded and run.size <= min(INLINE_BYTES, _INPUT_BYTES - self.input_bytes):
                self.input_bytes += run.size
                kept.append(run)
            else:
                kept.append(replace(run, trigger=None, request=None, unloaded=True))
        return kept, self.input_bytes - before

    def _add(self, batch: Batch) -> None:
        self._batches[batch.lease.batch_id] = batch
        task = asyncio.create_task(self._see_to(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_to(self, batch: Batch) -> None:
        """Leave the batch when nothing of it is at work, and nothing can join it any more."""
        batch_id = batch.lease.batch_id
        try:
            while batch.parts:
                batch.joined.clear()
                await asyncio.wait(batch.parts)
                if batch.is_open and not self._stopping:
                    await _set_within(batch.joined, _LINGER_SECONDS)
                async with self.claiming:
                    batch.closed = batch.closed or not batch.parts
            if not batch.held.lost:
                await batch.persist(self._database, lambda connection: leases.leave(connection, batch.lease))
        except Exception as error:
            # Without an executor that beats, the batch is taken up again.
            _log.error("batch_dropped", batch_id=str(batch_id), exc_info=error)
            batch.held.lost = True
        finally:
            if batch.alarm is not None:
                batch.alarm.cancel()
            if self._batches.get(batch_id) is batch:
                del self._batches[batch_id]
            batch.over.set()

    def _wake_at(self, batch: Batch, moment: datetime) -> None:
        """Queue a run that waits when it is due, as long as mates of it keep the batch here."""
        batch.wakes.append(moment)
        if batch.alarm is None or batch.alarm.done():
            batch.alarm = asyncio.create_task(self._queue_due(batch))
        elif moment <= min(batch.wakes):
            batch.alarm.cancel()
            batch.alarm = asyncio.create_task(self._queue_due(batch))

    async def _queue_due(self, batch: Batch) -> None:
        while batch.wakes:
            await asyncio.sleep(max(0.0, (min(batch.wakes) - datetime.now(UTC)).total_seconds()))

            async def queue(connection: Connection) -> tuple[int, float | None]:
                return await run_work.queue_due(connection, batch.lease.batch_id)

            queued, left = await batch.persist(self._database, queue)
            # The clock that counts is the database's.
            batch.wakes = [] if left is None else [datetime.now(UTC) + timedelta(seconds=max(left, 0.05))]
            if queued:
                self._notifier.notify(QUEUED_CHANNEL)

    async def _run_part(self, batch: Batch, runs: list[ClaimedRun], *, was_aside: bool) -> None:
        with structlog.contextvars.bound_contextvars(
            account_id=str(batch.account_id), batch_id=str(batch.lease.batch_id)
        ):
            try:
                await self._run_all(batch, runs, was_aside=was_aside)
            except Exception as error:
                _log.error("runs_dropped", exc_info=error)
                batch.held.lost = True

    async def _run_all(self, batch: Batch, runs: list[ClaimedRun], *, was_aside: bool) -> None:
        recorded = [run.run_id for run in runs if run.recorded]
        lane_id, build = batch.lane_id, self._build
        try:
            version = await batch.until_there(lambda: self._versions.load(batch.automation_id, batch.version))
            records: dict[UUID, Recorded] = {}
            if recorded:
                read = version.read
                records = await batch.until_there(lambda: self._load_records(recorded, read))
        except Exception as error:
            _log.error("lane_set_aside", lane_id=batch.lane_id, exc_info=error)
            self._failures.note(batch.account_id, failed=True)
            await batch.persist(
                self._database, lambda c: recovery.set_lane_aside(c, batch.lease, lane_id, build)
            )
            return
        if was_aside:
            await batch.persist(self._database, lambda c: recovery.take_lane_back(c, lane_id))
        tasks: list[asyncio.Task[None]] = []
        for run in runs:
            task = asyncio.create_task(self._run(batch, version, run, records.get(run.run_id, Recorded())))
            batch.runs[run.run_id] = self._runs[str(run.run_id)] = task
            tasks.append(task)
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(error, Exception):
                _log.error("run_dropped", exc_info=error)

    async def _load_records(self, run_ids: list[UUID], read: Collection[str]) -> dict[UUID, Recorded]:
        async with self._database.connection() as connection:
            return await run_loading.load_records(connection, run_ids, list(read))

    async def _run(self, batch: Batch, version: LoadedVersion, run: ClaimedRun, recorded: Recorded) -> None:
        try:
            wakes_at = await self._run_executor.run(batch, version, run, recorded)
            if wakes_at is not None:
                self._wake_at(batch, wakes_at)
        finally:
            del batch.runs[run.run_id]
            if self._runs.get(str(run.run_id)) is asyncio.current_task():
                del self._runs[str(run.run_id)]

    def drop(self, run_ids: Iterable[str]) -> None:
        """Drop runs that have ended elsewhere: none of their calls begins, those under way are ended."""
        for run_id in run_ids:
            task = self._runs.get(run_id)
            # One that was told so before is writing what it had under way.
            if task is not None and not task.cancelling():
                task.cancel()

    # ---- beats

    async def _beat_for_ever(self) -> None:
        while True:
            pause = BEAT_SECONDS
            try:
                await self._beat()
            except AWAY as error:
                _log.warning("beat_failed", error=str(error))
                pause = _BEAT_AGAIN_SECONDS
            except Exception as error:
                # Without beats no call begins any more: it goes on, and says so.
                _log.error("beat_failed", exc_info=error)
                pause = _BEAT_AGAIN_SECONDS
            await asyncio.sleep(pause)

    async def _beat(self) -> None:
        held = {batch.lease.batch_id: batch for batch in self._batches.values() if not batch.held.lost}
        if not held:
            return
        runs = [run_id for batch in held.values() for run_id in batch.runs]
        sent_at = time.monotonic()
        kept, news = await self._writer.beat([batch.lease for batch in held.values()], runs)
        for batch_id, batch in held.items():
            if batch_id in kept:
                batch.held.beat_sent_at = sent_at
            elif not batch.over.is_set():
                _log.warning("lease_lost", batch_id=str(batch_id))
                batch.held.lost = True
                for task in list(batch.runs.values()):
                    task.cancel()
        self.drop(map(str, news.gone))
        self._run_executor.look_again(news.woken)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
