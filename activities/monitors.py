"""The activities of monitors: looking at the targets of a run, ending it, accepting one that is due."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import psycopg
from temporalio import activity

import logs
from activities.belonging import check_workflow
from activities.heartbeat import heartbeats
from activities.looking_up import without_database
from database import Database, Notifier
from micro_batcher import MicroBatcher
from models import events
from models.errors import ModelError
from models.lookups import AllProvidersFailed
from models.monitors import ending, monitors, runs, working
from models.monitors.ending import Ended
from models.monitors.working import Found
from models.runs import QUEUED_CHANNEL
from outbound.concurrency import ConcurrencyLimiter
from providers.lookup import Lookups
from providers.waiter import Waiter
from services.watching import Stored, Watching
from temporal.starts import monitor_workflow_id
from workflows.messages import ACCEPT_DUE_RUN, FINISH_MONITOR_RUN, WATCH_TARGETS

_log = logs.get(__name__)
# Lookups of monitors at a time in this process; one account alone has half of these places.
_PLACES = 96
_BATCH_ROWS, _IN_FLIGHT = 128, 2
# How long after a failure a target is looked up once more: its sources may be over their limits for a moment.
_AGAIN_SECONDS = (2.0, 10.0)
# A comparison of so many bytes takes longer than the event loop may be held up.
_LARGE_BYTES = 64 * 1024


class MonitorActivities:
    """What the workflows of monitors have done."""

    def __init__(self, database: Database, notifier: Notifier, lookups: Lookups) -> None:
        """Prepare.

        Args:
            database: where runs are.
            notifier: tells dispatchers what follows from an end.
            lookups: of this process.
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
        """Look at those targets of a chunk that have no result yet, several at a time.

        A worker that dies leaves those undone whose results it had not recorded.

        Returns:
            Whether the run goes on; it may have been cancelled.
        """
        check_workflow(monitor_workflow_id(run_id))
        async with heartbeats():
            async with self._database.connection() as connection:
                chunk = await working.open_chunk(connection, run_id, number, runs.CHUNK)
            if chunk is None:
                return False
            look = _Look(chunk, self._places, self._lookups, self._loader, self._recorder)
            if not await look.at_all():
                return False
            async with self._database.connection() as connection:
                await working.close_chunk(connection, run_id, number)
            return True

    @activity.defn(name=FINISH_MONITOR_RUN)
    async def finish_monitor_run(self, run_id: UUID) -> None:
        """End a run all of whose targets have been looked at."""
        check_workflow(monitor_workflow_id(run_id))
        async with self._database.transaction() as connection:
            ended = await ending.finish(connection, run_id)
        self._notifier.notify(monitors.CHANGED_CHANNEL)
        self.notify(ended)

    @activity.defn(name=ACCEPT_DUE_RUN)
    async def accept_due_run(self, monitor_id: UUID, come: datetime | None = None) -> None:
        """Accept a run of a monitor that is due; else do nothing. `come`: the moment of its Schedule."""
        async with self._database.transaction() as connection:
            failed = await runs.start_due(connection, monitor_id, come)
        self._notifier.notify(monitors.CHANGED_CHANNEL)
        self.notify(failed)

    def notify(self, ended: Ended | None) -> None:
        """Tell who waits for what follows from the end of a run."""
        if ended is not None and ended.told:
            self._notifier.notify(events.QUEUED_CHANNEL)
        if ended is not None and ended.accepted:
            self._notifier.notify(QUEUED_CHANNEL)

    async def _load_many(self, wanted: list[tuple[UUID, str]]) -> list[Stored | Exception | None]:
        async with self._database.connection() as connection:
            return [*await working.load_baselines(connection, wanted)]

    async def _record_many(self, found: list[Found]) -> list[bool | Exception]:
        async with self._database.transaction() as connection:
            return [*await working.record(connection, found)]


class _Look:
    """A look at the targets of a chunk."""

    def __init__(
        self,
        chunk: working.Chunk,
        places: ConcurrencyLimiter,
        lookups: Lookups,
        loader: MicroBatcher[tuple[UUID, str], Stored | None],
        recorder: MicroBatcher[Found, bool],
    ) -> None:
        self._chunk = chunk
        self._watching = Watching(chunk, lookups.network_of)
        self._places = places
        self._lookups = lookups
        self._loader = loader
        self._recorder = recorder
        self._over = False

    async def at_all(self) -> bool:
        """Look at all; say whether the run goes on."""
        left = random.sample(self._chunk.targets, len(self._chunk.targets))
        for seconds in (*_AGAIN_SECONDS, None):
            left = await self._at_some(left, last=seconds is None)
            if self._over or not left or seconds is None:
                break
            await asyncio.sleep(seconds)
        return not self._over

    async def _at_some(self, left: Sequence[tuple[int, str]], *, last: bool) -> list[tuple[int, str]]:
        """Look at each; give those that are to be looked at once more."""
        waiting, again = iter(left), list[tuple[int, str]]()

        async def take() -> None:
            for one in waiting:
                if not await self._at(*one, last=last):
                    again.append(one)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_PLACES // 2, len(left))):
                group.create_task(take())
        return again

    async def _at(self, position: int, target: str, *, last: bool) -> bool:
        """Look at one; say whether that is done with, and need not be repeated."""
        async with self._places.taken(str(self._chunk.account_id)):
            if self._over:
                return True
            found = await self._found(position, target, last=last)
            if found is None:
                return False
            if not await self._recorder.submit(found):
                self._over = True
            return True

    async def _found(self, position: int, target: str, *, last: bool) -> Found | None:
        """What is to be recorded; None to look once more."""
        watching = self._watching
        try:
            result = await self._lookups.lookup(
                watching.kind.name, target, max_age=watching.max_age, waiter=Waiter(self._chunk.account_id)
            )
            stored = await self._loader.submit((self._chunk.monitor_id, target))
            given = (position, target, stored, result)
            if stored is not None and len(stored[1]) > _LARGE_BYTES:
                return await asyncio.to_thread(watching.judge, *given)
            return watching.judge(*given)
        except ModelError as error:
            if without_database(error):
                raise  # no fault of the sources: all that is left is to be looked at again
            if not last and isinstance(error, AllProvidersFailed) and _may_soon_be_answered(error):
                return None
            return watching.fail(position, target, error)
        except psycopg.Error:
            raise
        except Exception as error:
            # A fault of ours: it must not keep the run from its other targets, for ever.
            _log.error("target_not_judged", run_id=str(self._chunk.run_id), position=position, exc_info=error)
            return watching.fail(position, target, ModelError("internal_error", "The answer made us fail."))


def _may_soon_be_answered(error: AllProvidersFailed) -> bool:
    """Whether some source can be asked again before the last look; its quota may be gone for the day."""
    waits = [
        report.get("retry_after", 0) for report in error.details["providers"] if report["status"] != "skipped"
    ]
    return error.repeatable and min(waits, default=0) <= sum(_AGAIN_SECONDS)
