"""Heartbeats: how the server learns soon that a worker is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from temporalio import activity

_SECONDS = 3


@contextlib.asynccontextmanager
async def heartbeats() -> AsyncGenerator[None]:
    """Tell the server every three seconds, for the time of the block, that this activity is alive."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            activity.heartbeat()

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
