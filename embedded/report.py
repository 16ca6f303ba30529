"""What a start says: one line a fact, and a sign of life for whatever takes longer than two seconds."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator
from typing import TextIO

_PATIENCE_SECONDS = 2
_EVERY_SECONDS = 10
_MOST_PAUSE_SECONDS = 30  # of what takes minutes, so that what was said before stays in sight


class Report:
    """Writes lines of the form `part      text`."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out

    @property
    def on_terminal(self) -> bool:
        """Whether a person reads it on a terminal; else it ends up in a log, which must hold no secret."""
        return (self._out or sys.stdout).isatty()

    def say(self, part: str, text: str) -> None:
        """Write one line about `part` of the stack."""
        # A closed terminal or a full disk under a redirect is no reason to stop the stack.
        with contextlib.suppress(OSError, ValueError):
            print(f"{part:<10} {text}", file=self._out or sys.stdout, flush=True)

    @contextlib.asynccontextmanager
    async def during(self, part: str, text: str) -> AsyncGenerator[None]:
        """Say `text` when the block has taken two seconds, and ever less often that it is still going."""
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
