"""The waiting for runs and jobs: notifications wake the waiting tasks, and the row is read now and then.

Tasks of this process that watch the same object share these reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from database import Database
from micro_batcher import MicroBatcher
from models.runs import runs
from models.runs.run_results import Result, read_payload
from models.runs.run_views import RunView
from notifications import Listener

# The time between reads without a notification; longer while notifications are received, because they are
# rarely lost.
_LOOK_SECONDS = 1.0
_HEARING_SECONDS = 5.0
# A caller that has just accepted a run starts to wait a moment later; about this many runs end meanwhile, at
# most.
_MOST_HEARD = 1024

Seen = TypeVar("Seen")
Look = Callable[[Seen | None], Awaitable[Seen | None]]
"""Reads an object. It takes its last finding, or None, and returns a new one, or None if nothing has changed.
"""


class Watch(Generic[Seen]):
    """An object that one task reads for all watchers.

    Attributes:
        task: reads the object.
        watchers: the number of watchers.
        seen: the last finding.
        version: the number of findings so far.
        error: the exception that ended the reading.
    """

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.watchers = 0
        self.seen: Seen | None = None
        self.version = 0
        self.error: Exception | None = None
        self._news = asyncio.Event()

    def publish(self, seen: Seen) -> None:
        """Pass a new finding to all watchers."""
        self.seen = seen
        self.version += 1
        self.wake()

    def wake(self) -> None:
        """Wake all watchers."""
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, version: int, seconds: float) -> None:
        """Wait until there is a newer version, at most `seconds`."""
        if self.version == version and self.error is None and not self.task.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        if self.error is not None:
            raise self.error


class Watcher(Generic[Seen]):
    """One watcher of an object."""

    def __init__(self, watch: Watch[Seen]) -> None:
        self._watch = watch
        self._version = 0

    async def next(self, seconds: float) -> Seen | None:
        """Return a new finding since the last call; None after `seconds`, or if reading has ended.

        Raises:
            Exception: an exception of the reading.
        """
        await self._watch.wait(self._version, seconds)
        if self._watch.version == self._version:
            return None
        self._version = self._watch.version
        return self._watch.seen


class RunWaiter:
    """The tasks that wait for runs and jobs, in this process.

    `wake_finished` is the handler of `FINISHED_CHANNEL`.

    `closed`: no task should wait any longer, because the process is about to stop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._watches: dict[Hashable, Watch[Any]] = {}
        # The runs whose ends were received last, latest at the end, with their results if those were sent.
        self._heard: dict[str, Result | None] = {}
        # Runs that end at the same moment are read in one statement.
        self._ended: MicroBatcher[UUID, RunView | None] = MicroBatcher(self._load_views, most=256)
        self._listener: Listener | None = None
        self.closed = False

    def listen_with(self, listener: Listener) -> None:
        """Receive the ends of runs from `listener`, which calls `wake_finished`."""
        self._listener = listener

    def close(self) -> None:
        """Wake every waiting task, so that the process can stop without delay."""
        self.closed = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    def wake_finished(self, payload: str) -> None:
        """Wake the tasks that wait for the runs with these comma-separated ids."""
        for run_id in payload.split(","):
            self._heard.setdefault(run_id, None)
            self.wake(run_id)
        while len(self._heard) > _MOST_HEARD:
            del self._heard[next(iter(self._heard))]

    def store_results(self, payload: str) -> None:
        """Store the results of runs whose ends will be announced next."""
        for result in read_payload(payload):
            self._heard[str(result.run_id)] = result

    def wake(self, id: str) -> None:
        """Wake the tasks that watch the object with this id."""
        for event in self._waiting.get(id, ()):
            event.set()

    @contextmanager
    def watch(
        self, key: Hashable, id: UUID, look: Look[Seen], pause: Callable[[], float]
    ) -> Generator[Watcher[Seen]]:
        """Watch an object together with all callers that pass the same key.

        Args:
            key: the object and the permission to read it: the first caller's `look` is used for all.
            id: of the run or job whose notifications cause a read at once.
            look: reads the object.
            pause: seconds until the next read without a notification.
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
            with self.subscribe(id) as notified:
                while not self.closed:
                    seen = await look(watch.seen)
                    if seen is not None and seen is not watch.seen:
                        watch.publish(seen)
                    await woken(notified, pause())
        except Exception as error:
            watch.error = error  # raised for each watcher
        finally:
            self._forget(key, watch)
            watch.wake()

    def _forget(self, key: Hashable, watch: Watch[Any]) -> None:
        if self._watches.get(key) is watch:
            del self._watches[key]

    @contextmanager
    def subscribe(self, id: UUID) -> Generator[asyncio.Event]:
        """Yield an event that is set when something has happened to the object with this id."""
        event, key = asyncio.Event(), str(id)
        self._waiting.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]

    async def wait(self, run_id: UUID, seconds: float, *, new: bool = False) -> RunView | None:
        """Wait until the run has ended, at most `seconds`; return the run, whichever account owns it.

        Its larger values are left out.

        Args:
            run_id: the run.
            seconds: the longest wait.
            new: whether it was accepted a moment ago, so that its end is still to be received.
        """
        found = await self._wait(run_id, seconds, new, None)
        assert not isinstance(found, Result), "results are given for a version"
        return found

    async def wait_for_result(
        self, run_id: UUID, seconds: float, *, new: bool, version: int
    ) -> RunView | Result | None:
        """Wait as `wait`; return only the result if it was sent and the version matches."""
        began = asyncio.get_running_loop().time()
        if new and self._hears():
            # Nearly always the result is received, so that nothing need be read.
            result = await self._hear_result(run_id, min(seconds, _HEARING_SECONDS))
            if result is not None and result.version == version:
                return result
        left = max(0.0, seconds - asyncio.get_running_loop().time() + began)
        return await self._wait(run_id, left, False, version)

    async def _hear_result(self, run_id: UUID, seconds: float) -> Result | None:
        with self.subscribe(run_id) as notified:
            if str(run_id) not in self._heard:
                await woken(notified, seconds)
        return self._heard.get(str(run_id))

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

    async def _load_views(self, run_ids: list[UUID]) -> list[RunView | Exception | None]:
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
