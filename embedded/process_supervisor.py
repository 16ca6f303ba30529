"""The supervision of child processes: it restarts ended ones, with growing pauses, or gives up."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

from embedded.process import Child
from embedded.report import Report
from settings import ExitCode, StartError

_FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 30.0
_STEADY_SECONDS = 60.0
_ATTEMPTS_BEFORE_READY = 3
# By these codes a child reports that a setting or the folder is wrong, which no retry fixes. The other two
# (an unreachable database or Temporal server) count so only until the child has worked once.
_FATAL = frozenset({ExitCode.SETTING, ExitCode.PORT_TAKEN, ExitCode.DATA_FOLDER, ExitCode.SECRET_KEY})
_FATAL_AT_FIRST = _FATAL | {ExitCode.DATABASE, ExitCode.TEMPORAL}


class ProcessSupervisor:
    """Watches over the children of one stack."""

    def __init__(
        self, report: Report, *, on_failure: Callable[[StartError], None], on_start: Callable[[], None]
    ) -> None:
        """Prepare to watch.

        Args:
            report: receives every end and restart.
            on_failure: called when a child reports, or shows, that it will never come up.
            on_start: called when a child has been restarted.
        """
        self._came_up: set[str] = set()
        self._report = report
        self._on_failure = on_failure
        self._on_start = on_start
        self._tasks: list[asyncio.Task[None]] = []

    def keep(self, start: Callable[[], Awaitable[None]], current: Callable[[], Child]) -> None:
        """Watch a child from now on.

        Args:
            start: restarts it.
            current: returns the running child.
        """
        self._tasks.append(asyncio.create_task(self._keep(start, current), name=f"keep {current().name}"))

    def came_up(self, *names: str) -> None:
        """Record that these have worked once: from then on only a bad setting makes us give one up."""
        self._came_up.update(names)

    async def release(self) -> None:
        """Stop watching, so that children can be stopped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, start: Callable[[], Awaitable[None]], current: Callable[[], Child]) -> None:
        pause, ends = _FIRST_PAUSE_SECONDS, 0
        began = time.monotonic()
        while True:
            code = await current().wait()
            child = current()
            if time.monotonic() - began > _STEADY_SECONDS:
                pause, ends = _FIRST_PAUSE_SECONDS, 0
            ends += 1
            if failure := self._failure(child, code, ends):
                self._on_failure(failure)
                return
            self._report.say(child.name, f"ended ({_ending(code)}); again in {pause:.0f} s; see {child.log}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MOST_PAUSE_SECONDS)
            began = time.monotonic()
            try:
                await start()
            except Exception as error:
                # Whatever it is, for example that the database has ended again: nobody else restarts it.
                self._report.say(child.name, f"not restarted: {error}")
            else:
                self._report.say(child.name, "up again")
                self._on_start()

    def _failure(self, child: Child, code: int, ends: int) -> StartError | None:
        """Return why the whole stack should stop after this end of a child, or None."""
        words, worked = child.log_tail(), child.name in self._came_up
        if code in (_FATAL if worked else _FATAL_AT_FIRST):
            return StartError(words, ExitCode(code))
        if not worked and ends >= _ATTEMPTS_BEFORE_READY:
            return StartError(
                f"{child.name} does not start; the end of {child.log}:\n{words}", ExitCode.UNEXPECTED
            )
        return None


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"signal {-code}"
