"""Heartbeats, by which the server notices a lost worker soon; and pauses that end with the worker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from temporalio import activity

_SECONDS = 3


@contextlib.asynccontextmanager
async def heartbeats(*details: int) -> AsyncGenerator[None]:
    """Send heartbeats of this activity to the server every three seconds, while the block runs.

    Args:
        details: data for the next attempt, if this one is lost.
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
    """Wait for this long, or until this worker must stop; return whether it must."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await activity.wait_for_worker_shutdown()
    except TimeoutError:
        return False
    return seconds > 0
