"""Waiting for runs and jobs: woken by their notifications, with a look at the row now and then.

What several watch is looked at once for all of them in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from database import Database, Listener
from micro_batcher import MicroBatcher
from models.runs import runs
from models.runs.run_results import Result, read_payload
from models.runs.run_views import RunView

# How long whoever waits relies on being woken; longer while notifications are heard: they are seldom lost.
_LOOK_SECONDS = 1.0
_HEARING_SECONDS = 5.0
# Who has just accepted a run begins to wait for it a moment later: about as many end meanwhile, at the most.
_MOST_HEARD = 1024

Seen = TypeVar("Seen")
Look = Callable[[Seen | None], Awaitable[Seen | None]]
"""Looks at something, and gives what it finds; what it has found last, or None, where that is nothing new."""


class Watch(Generic[Seen]):
    """Something that one task looks at for all who watch it.

    Attributes:
        task: looks at it.
        watchers: how many watch.
        seen: what the last look found.
        version: how often a look found something new.
        error: why there will be no more looks.
    """

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.watchers = 0
        self.seen: Seen | None = None
        self.version = 0
        self.error: Exception | None = None
        self._news = asyncio.Event()

    def publish(self, seen: Seen) -> None:
        """Give something new to all who watch."""
        self.seen = seen
        self.version += 1
        self.wake()

    def wake(self) -> None:
        """Wake all who watch."""
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, version: int, seconds: float) -> None:
        """Wait until there is something newer than a version, at most `seconds`."""
        if self.version == version and self.error is None and not self.task.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        if self.error is not None:
            raise self.error


class Watcher(Generic[Seen]):
    """One who watches."""

    def __init__(self, watch: Watch[Seen]) -> None:
        self._watch = watch
        self._version = 0

    async def next(self, seconds: float) -> Seen | None:
        """Return what is new since the last call; None after `seconds` without news, or if nobody looks.

        Raises:
            Exception: what the look has raised.
        """
        await self._watch.wait(self._version, seconds)
        if self._watch.version == self._version:
            return None
        self._version = self._watch.version
        return self._watch.seen


class RunWaiter:
    """Who waits for which run or job, in this process. `finished` is the handler of `FINISHED_CHANNEL`.

    `closed`: nobody should wait any longer, since the process is about to stop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._watches: dict[Hashable, Watch[Any]] = {}
        # The runs whose ends were heard last, the latest at the end, with their results if those were told.
        self._heard: dict[str, Result | None] = {}
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
            self._heard.setdefault(run_id, None)
            self.wake(run_id)
        while len(self._heard) > _MOST_HEARD:
            del self._heard[next(iter(self._heard))]

    def told(self, payload: str) -> None:
        """Keep the results of runs whose ends are about to be told."""
        for result in read_payload(payload):
            self._heard[str(result.run_id)] = result

    def wake(self, id: str) -> None:
        """Wake those who watch what has this id."""
        for event in self._waiting.get(id, ()):
            event.set()

    @contextmanager
    def watch(
        self, key: Hashable, id: UUID, look: Look[Seen], pause: Callable[[], float]
    ) -> Generator[Watcher[Seen]]:
        """Watch something together with all who give the same key.

        Args:
            key: what is watched, and by whose right: the first one's `look` is used for all.
            id: of the run or job, whose notifications lead to a look at once.
            look: looks at it.
            pause: seconds until the next look without a notification.
        """
        watch = cast(Watch[Seen] | None, self._watches.get(key))
        if watch is None:
            watch = self._watches[key] = Watch[Seen]()
            watch.task = asyncio.create_task(self._keep_looking(watch, key, id, look, pause))
        watch.watchers += 1
        try:
            yield Watcher(watch)
        finally:
            watch.watchers -= 1
            if not watch.watchers:
                watch.task.cancel()
                self._forget(key, watch)

    async def _keep_looking(
        self, watch: Watch[Seen], key: Hashable, id: UUID, look: Look[Seen], pause: Callable[[], float]
    ) -> None:
        try:
            with self._notified(id) as notified:
                while not self.closed:
                    seen = await look(watch.seen)
                    if seen is not None and seen is not watch.seen:
                        watch.publish(seen)
                    await woken(notified, pause())
        except Exception as error:
            watch.error = error  # raised for each who watches
        finally:
            self._forget(key, watch)
            watch.wake()

    def _forget(self, key: Hashable, watch: Watch[Any]) -> None:
        if self._watches.get(key) is watch:
            del self._watches[key]

    @contextmanager
    def _notified(self, id: UUID) -> Generator[asyncio.Event]:
        """Give an event that is set when the run has ended or the job has got further."""
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

        Its larger values are left out.

        Args:
            run_id: the run.
            seconds: how long at most.
            new: it has been accepted a moment ago, so its end is yet to be heard, unless it just was.
        """
        found = await self._wait(run_id, seconds, new, None)
        assert not isinstance(found, Result), "results are given for a version"
        return found

    async def wait_for_result(
        self, run_id: UUID, seconds: float, *, new: bool, version: int
    ) -> RunView | Result | None:
        """Wait as `wait`; the result alone if it was told, and the run is of this version of its workflow."""
        return await self._wait(run_id, seconds, new, version)

    async def _wait(
        self, run_id: UUID, seconds: float, new: bool, version: int | None
    ) -> RunView | Result | None:
        looks = 0

        async def look(_: object) -> RunView | Result | None:
            nonlocal looks
            result = self._heard.get(str(run_id))
            if result is not None and result.version == version:
                return result
            looks += 1
            if looks == 1 and new and self._hears() and str(run_id) not in self._heard:
                return None
            return await self._ended.submit(run_id)

        def pause() -> float:
            return _HEARING_SECONDS if self._hears() else _LOOK_SECONDS

        with self.watch(("end", run_id, version), run_id, look, pause) as watcher:
            return await watcher.next(seconds)

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
