"""Heartbeats, by which the server learns soon that a worker is lost; and pauses that end with the worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from temporalio import activity

_SECONDS = 3


@contextlib.asynccontextmanager
async def heartbeats(*details: int) -> AsyncGenerator[None]:
    """Tell the server every three seconds, while the block runs, that this activity is alive.

    Args:
        details: what the next attempt learns, should this one be lost.
    """

    async def beat() -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            activity.heartbeat(*details)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


async def worker_stops_within(seconds: float) -> bool:
    """Wait for so long, or until this worker is told to stop; say whether it was."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await activity.wait_for_worker_shutdown()
    except TimeoutError:
        return False
    return seconds > 0
