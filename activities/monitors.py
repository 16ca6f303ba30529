"""The activities of monitors: looking up the targets of a run, ending it, accepting one that is due."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
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
from models.lookups.lookups import AllProvidersFailed
from models.lookups.silence import Reason
from models.monitors import completion, monitors, queue, runs, sources
from models.monitors.completion import RunEffects
from models.monitors.queue import Chunk, TargetResult
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from providers.lookup.counting import count_sources
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.lookup.result import LookupResult
from providers.lookup.waiter import Waiter
from services.monitor_pace import NOBODY, Pace, WaitingTarget
from services.target_comparison import Stored, Watching
from temporal.starts import monitor_workflow_id
from workflows.messages import (
    ACCEPT_DUE_RUN,
    FINISH_MONITOR_RUN,
    WATCH_CHUNK,
    WATCH_TARGETS,
    MonitorChunkResult,
)

_log = logs.get(__name__)
# The lookups of monitors at a time in this process; one account alone has half of these places.
_PLACES = 96
_BATCH_ROWS, _IN_FLIGHT = 128, 2
# The pauses after which a failed target is looked up again: its sources may be over their limits for a
# moment.
_AGAIN_SECONDS = (2.0, 10.0)
# A longer wait is a timer of the workflow, which checks again at least once an hour. No activity runs longer
# than the last of these.
_PAUSE_SECONDS, _HOUR_SECONDS, _LONGEST_SECONDS = 20.0, 3600.0, 1800.0
# A comparison of more bytes would block the event loop for too long.
_LARGE_BYTES = 64 * 1024


class MonitorActivities:
    """The activities of monitors."""

    def __init__(self, database: Database, notifier: Notifier, lookups: Lookups) -> None:
        """Create the activities.

        Args:
            database: the database with the runs.
            notifier: notifies dispatchers of the effects of an end.
            lookups: the lookups of this process.
        """
        self._database = database
        self._notifier = notifier
        self._lookups = lookups
        self._places = ConcurrencyLimiter(_PLACES)
        self._loader = MicroBatcher(self._load_many, most=_BATCH_ROWS)
        self._recorder = MicroBatcher(
            self._record_many, size=lambda found: found.size, most=_BATCH_ROWS, in_flight=_IN_FLIGHT
        )

    @activity.defn(name=WATCH_TARGETS)
    async def watch_targets(self, run_id: UUID, number: int) -> bool:
        """Look up the targets of a chunk that have no result yet, several at a time.

        If a worker dies, the targets whose results were not recorded are looked up again.

        Returns:
            Whether the run is still under way; it may have been cancelled.
        """
        check_workflow(monitor_workflow_id(run_id))
        async with heartbeats():
            async with self._database.connection() as connection:
                chunk = await queue.open_chunk(connection, run_id, number, runs.CHUNK)
            if chunk is None:
                return False
            return not (await self._look(chunk, number, patient=True, waits=False)).over

    @activity.defn(name=WATCH_CHUNK)
    async def watch_chunk(self, run_id: UUID, number: int, patient: bool) -> MonitorChunkResult:
        """Look up the targets of a chunk that have no result yet, at the pace of their sources.

        Args:
            run_id: the run.
            number: the number of the chunk.
            patient: whether to wait here for sources that are open soon.
        """
        check_workflow(monitor_workflow_id(run_id))
        async with heartbeats():
            async with self._database.connection() as connection:
                chunk = await queue.open_chunk(connection, run_id, number, runs.CHUNK)
            return (
                MonitorChunkResult(over=True)
                if chunk is None
                else await self._look(chunk, number, patient=patient)
            )

    async def _look(
        self, chunk: Chunk, number: int, *, patient: bool, waits: bool = True
    ) -> MonitorChunkResult:
        look = ChunkLookup(chunk, self._places, self._lookups, self._loader, self._recorder, waits=waits)
        left = await look.run(patient=patient)
        if look.over:
            return MonitorChunkResult(over=True)
        async with self._database.connection() as connection:
            await sources.add_absent(connection, chunk.monitor_id, look.absent)
            if left:
                await queue.mark_waiting(connection, chunk.run_id, min(left.values()))
            else:
                await queue.close_chunk(connection, chunk.run_id, number)
        return MonitorChunkResult(left)

    @activity.defn(name=FINISH_MONITOR_RUN)
    async def finish_monitor_run(self, run_id: UUID) -> None:
        """End a run whose targets have all been looked up, and start one that became due meanwhile."""
        check_workflow(monitor_workflow_id(run_id))
        async with self._database.transaction() as connection:
            ended = await completion.finish(connection, run_id)
            failed = await runs.start_next(connection, run_id, is_charged=self._lookups.charges)
        self._notifier.notify(monitors.CHANGED_CHANNEL)
        self.notify(ended)
        self.notify(failed)

    @activity.defn(name=ACCEPT_DUE_RUN)
    async def accept_due_run(self, monitor_id: UUID, come: datetime | None = None) -> None:
        """Accept the run of a monitor if it is due. `come` is the current time of its Schedule."""
        async with self._database.transaction() as connection:
            failed = await runs.start_due(connection, monitor_id, come, is_charged=self._lookups.charges)
        self._notifier.notify(monitors.CHANGED_CHANNEL)
        self.notify(failed)

    def notify(self, ended: RunEffects | None) -> None:
        """Notify of the effects of a run's end."""
        if ended is not None and ended.told:
            self._notifier.notify(events.QUEUED_CHANNEL)
        if ended is not None and ended.accepted:
            self._notifier.notify(QUEUED_CHANNEL)

    async def _load_many(self, wanted: list[tuple[UUID, str]]) -> list[Stored | Exception | None]:
        async with self._database.connection() as connection:
            return [*await queue.load_baselines(connection, wanted)]

    async def _record_many(self, found: list[TargetResult]) -> list[bool | Exception]:
        async with self._database.transaction() as connection:
            return [*await queue.record(connection, found)]


class ChunkLookup:
    """The lookup of the targets of a chunk, at the pace of their sources."""

    def __init__(
        self,
        chunk: Chunk,
        places: ConcurrencyLimiter,
        lookups: Lookups,
        loader: MicroBatcher[tuple[UUID, str], Stored | None],
        recorder: MicroBatcher[TargetResult, bool],
        *,
        waits: bool,
    ) -> None:
        self._chunk = chunk
        self._waits = waits
        self._waiter = Waiter(chunk.account_id)
        self._watching = Watching(chunk, lookups.network_of, patient=waits)
        self._places = places
        self._lookups = lookups
        self._loader = loader
        self._recorder = recorder
        self._now = asyncio.get_running_loop().time
        ends = self._now() + (chunk.ends_in if waits else 0.0)
        self._pace = Pace(self._now, ends, [WaitingTarget(*one) for one in chunk.targets])
        self._flying = 0
        self.over = False

    @property
    def absent(self) -> Mapping[str, Reason]:
        """The sources of tracked fields that were found not to be asked, and why."""
        return self._watching.absent

    async def run(self, *, patient: bool) -> dict[str, float]:
        """Look up all targets; return the sources that the rest waits for: source → seconds.

        Args:
            patient: whether to wait here for sources that are open soon.
        """
        until = self._now() + _LONGEST_SECONDS
        while True:
            async with asyncio.TaskGroup() as group:
                self._start_lookups(group)
            if self.over or not self._pace.left:
                return {}
            pause, waits = self._pace.seconds(), self._pace.waits()
            is_limited = NOBODY not in waits
            if (is_limited and not patient) or pause > _PAUSE_SECONDS or self._now() > until:
                return {name: min(seconds, _HOUR_SECONDS) for name, seconds in waits.items()}
            if await worker_stops_within(pause):
                return waits

    def _start_lookups(self, group: asyncio.TaskGroup) -> None:
        """Begin to look up as many targets as are allowed now."""
        while self._flying < _PLACES // 2 and not self.over and (one := self._pace.take()) is not None:
            self._flying += 1
            group.create_task(self._process_target(one, group))

    async def _process_target(self, one: WaitingTarget, group: asyncio.TaskGroup) -> None:
        """Look up one target, then begin with more."""
        async with self._places.hold(str(self._chunk.account_id)):
            if not self.over:
                found = await self._judge_target(one)
                if found is not None and not await self._recorder.submit(found):
                    self.over = True
        self._flying -= 1
        self._start_lookups(group)

    async def _judge_target(self, one: WaitingTarget) -> TargetResult | None:
        """Look one target up, and judge it; return the result to record, or None if the target waits."""
        watching, position, target = self._watching, one.position, one.target
        stored: Stored | None = None
        try:
            stored = await self._loader.submit((self._chunk.monitor_id, target))
            looked = await self._look_up(target)
            waits = watching.waits_of(looked)
            if self._pace.land(one, waits):
                return None
            if isinstance(looked, DomainError) and self._put_off(one, looked):
                return None
            count_sources(self._chunk.account_id, looked)
            if isinstance(looked, DomainError):
                return watching.fail(position, target, stored, looked)
            given = (position, target, stored, looked)
            if stored is not None and len(stored[1]) > _LARGE_BYTES:
                return await asyncio.to_thread(watching.judge, *given)
            return watching.judge(*given)
        except (AllProvidersFailed, psycopg.Error):
            raise  # the sources are not at fault: the rest must be looked up again
        except Exception as error:
            # A fault of our code must not block the other targets of the run for ever.
            _log.error("target_not_judged", run_id=str(self._chunk.run_id), position=position, exc_info=error)
            fault = DomainError("internal_error", "The answer made us fail.")
            return watching.fail(position, target, stored, fault)

    async def _look_up(self, target: str) -> LookupResult | DomainError:
        """Look a target up; return its answer, or the error if no source answered.

        Raises:
            AllProvidersFailed: the database was away.
        """
        watching, waiter = self._watching, self._waiter if self._waits else None
        try:
            return await self._lookups.lookup(
                watching.kind.name, target, LookupOptions(max_age=watching.max_age, waiter=waiter)
            )
        except DomainError as error:
            if without_database(error):
                raise
            return error

    def _put_off(self, one: WaitingTarget, error: DomainError) -> bool:
        """Postpone a target that may soon be answered; return whether it was postponed."""
        if one.tries == len(_AGAIN_SECONDS) or not isinstance(error, AllProvidersFailed):
            return False
        if not _may_soon_be_answered(error):
            return False
        self._pace.put_back(one, seconds=_AGAIN_SECONDS[one.tries])
        one.tries += 1
        return True


def _may_soon_be_answered(error: AllProvidersFailed) -> bool:
    """Return whether some source can be asked again before the last attempt; a daily quota cannot."""
    waits = [
        report.get("retry_after", 0) for report in error.details["providers"] if report["status"] != "skipped"
    ]
    return error.repeatable and min(waits, default=0) <= sum(_AGAIN_SECONDS)
