"""A buffer that takes all items before it yields the first, on disk instead of in memory."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import Any, TypeVar

_IN_MEMORY_BYTES = 1024 * 1024

T = TypeVar("T")


@asynccontextmanager
async def buffer_to_disk(items: AsyncGenerator[T]) -> AsyncGenerator[AsyncGenerator[T]]:
    """Collect all items before yielding the first; beyond 1 MiB they are on disk until the block ends.

    A caller that reads the items within a transaction then does not wait there for their producer.

    Raises:
        Exception: any exception of the producer.
    """
    with SpooledTemporaryFile[bytes](max_size=_IN_MEMORY_BYTES) as file:
        count = 0
        async with aclosing(items):
            async for item in items:
                await asyncio.to_thread(pickle.dump, item, file)
                count += 1
        file.seek(0)
        yield _load_items(file, count)


async def _load_items(file: SpooledTemporaryFile[bytes], count: int) -> AsyncGenerator[Any]:
    for _ in range(count):
        yield await asyncio.to_thread(pickle.load, file)
