"""Heartbeats: how the server learns soon that a worker is lost."""

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
