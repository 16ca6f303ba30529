"""Waiting for runs and jobs: woken by their notifications, with a look at the row now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

from database import Database, Listener
from micro_batcher import MicroBatcher
from models import runs
from models.run_views import RunView

# How long whoever waits relies on being woken; longer while notifications are heard: they are seldom lost.
_LOOK_SECONDS = 1.0
_HEARING_SECONDS = 5.0
# Who has just accepted a run begins to wait for it a moment later: about as many end meanwhile, at the most.
_MOST_HEARD = 1024


class RunWaiter:
    """Who waits for which run or job, in this process. `finished` is the handler of `FINISHED_CHANNEL`.

    `closed`: nobody should wait any longer, since the process is about to stop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}
        # The runs whose ends were heard last, the latest at the end.
        self._heard: dict[str, None] = {}
        # The runs that end at the same moment are read in one statement.
        self._ended: MicroBatcher[UUID, RunView | None] = MicroBatcher(self._read, most=256)
        self._listener: Listener | None = None
        self.closed = False

    def listen_with(self, listener: Listener) -> None:
        """Learn of runs that ended from `listener`, which calls `finished`."""
        self._listener = listener

    def close(self) -> None:
        """The process is about to stop: wake everybody, so that nobody holds it up."""
        self.closed = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    def finished(self, payload: str) -> None:
        """Wake those who wait for the runs with these comma-separated ids."""
        for run_id in payload.split(","):
            self._heard[run_id] = None
            self.wake(run_id)
        while len(self._heard) > _MOST_HEARD:
            del self._heard[next(iter(self._heard))]

    def wake(self, id: str) -> None:
        """Wake those who watch what has this id."""
        for event in self._waiting.get(id, ()):
            event.set()

    @contextmanager
    def watching(self, id: UUID) -> Generator[asyncio.Event]:
        """An event that is set when the run has ended or the job has got further; never more than a hint."""
        event, key = asyncio.Event(), str(id)
        self._waiting.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]

    async def wait(self, run_id: UUID, seconds: float, *, new: bool = False) -> RunView | None:
        """Wait until the run has ended, at most `seconds`; the run as it has, whosever it is.

        Args:
            run_id: the run.
            seconds: how long at most.
            new: it has been accepted a moment ago, so its end is yet to be heard, unless it just was.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        with self.watching(run_id) as event:
            unheard = new and self._hears() and str(run_id) not in self._heard
            ended = None if unheard else await self._ended.submit(run_id)
            while ended is None:
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0 or self.closed:
                    return None
                await woken(event, min(left, _HEARING_SECONDS if self._hears() else _LOOK_SECONDS))
                ended = await self._ended.submit(run_id)
            return ended

    def _hears(self) -> bool:
        return self._listener is not None and self._listener.connected.is_set()

    async def _read(self, run_ids: list[UUID]) -> list[RunView | Exception | None]:
        async with self._database.connection() as connection:
            ended = await runs.get_ended(connection, run_ids)
        return [ended.get(run_id) for run_id in run_ids]


async def woken(event: asyncio.Event, seconds: float) -> None:
    """Wait for `event`, at most `seconds`, and clear it."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
    event.clear()
