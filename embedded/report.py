"""The output of a start: one line a fact, and progress for steps of more than two seconds."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator
from typing import TextIO

_PATIENCE_SECONDS = 2
_EVERY_SECONDS = 10
_MOST_PAUSE_SECONDS = 30  # for steps of minutes, so that earlier lines stay in sight


class Report:
    """Writes lines of the form `part      text`."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out

    @property
    def on_terminal(self) -> bool:
        """Return whether it is read on a terminal; otherwise it is a log, which must hold no secret."""
        return (self._out or sys.stdout).isatty()

    def say(self, part: str, text: str) -> None:
        """Write one line about `part` of the stack."""
        # A closed terminal or a full disk under a redirect must not stop the stack.
        with contextlib.suppress(OSError, ValueError):
            print(f"{part:<10} {text}", file=self._out or sys.stdout, flush=True)

    @contextlib.asynccontextmanager
    async def during(self, part: str, text: str) -> AsyncGenerator[None]:
        """Print `text` when the block has taken two seconds, then ever less often that it still runs."""
        ticker = asyncio.create_task(self._tick(part, text), name=f"progress of {part}")
        try:
            yield
        finally:
            ticker.cancel()

    async def _tick(self, part: str, text: str) -> None:
        started = time.monotonic()
        await asyncio.sleep(_PATIENCE_SECONDS)
        self.say(part, f"{text} …")
        pause = _EVERY_SECONDS
        while True:
            await asyncio.sleep(pause)
            self.say(part, f"{text} … {time.monotonic() - started:.0f} s")
            pause = min(pause + _EVERY_SECONDS, _MOST_PAUSE_SECONDS)
