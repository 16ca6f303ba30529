"""The lag of the event loop of this process: how late due tasks run because others keep the loop busy."""

from __future__ import annotations

import asyncio
import math
import time

import logs

_log = logs.get(__name__)
_INTERVAL_SECONDS = 0.25
_TOO_LONG_SECONDS = 2.0


class LoopLag:
    """Measures how late a task wakes that sleeps for a quarter of a second, again and again."""

    def __init__(self) -> None:
        self._due = math.inf
        self._last = self._longest = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to measure the running loop."""
        self._task = asyncio.create_task(self._measure(), name="loop lag")

    def stop(self) -> None:
        """Stop measuring."""
        if self._task is not None:
            self._task.cancel()

    @property
    def seconds(self) -> float:
        """The last measured lag, or the delay of the next measurement if that is longer."""
        return max(self._last, time.monotonic() - self._due)

    @property
    def is_too_long(self) -> bool:
        """Return whether the lag is over two seconds: then this process is overloaded."""
        return self.seconds > _TOO_LONG_SECONDS

    def take_longest(self) -> float:
        """Return the longest lag since the last call, in seconds."""
        longest, self._longest = max(self._longest, self.seconds), 0.0
        return longest

    async def _measure(self) -> None:
        while True:
            self._due = time.monotonic() + _INTERVAL_SECONDS
            await asyncio.sleep(_INTERVAL_SECONDS)
            lag = max(0.0, time.monotonic() - self._due)
            if lag > _TOO_LONG_SECONDS >= self._last:
                _log.warning("event_loop_lags", seconds=round(lag, 3))
            self._last, self._longest = lag, max(self._longest, lag)
