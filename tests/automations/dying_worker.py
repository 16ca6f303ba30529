"""A worker process that is killed the moment a batch has been started, its first task perhaps at hand."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import settings
import worker
from temporal import starts

_start = starts.start


async def _start_and_die(*arguments: Any, **options: Any) -> None:
    assert options["eager"]
    await _start(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)


starts.start = _start_and_die
asyncio.run(worker.run(settings.load()))
