"""Check an upload of 20 MB; print how many rows it has, and the most bytes that were held meanwhile.

python -m tests.uploads.large_upload
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator

from models.identifiers import new_id
from services.disk_buffer import buffer_to_disk
from services.process_pool import ProcessPool
from services.target_files import open_csv


async def _chunks() -> AsyncGenerator[bytes]:
    yield "ip,note,😀\n".encode()
    for _ in range(2_000):
        yield b"8.8.8.8," + b"x" * 9_990 + "😀,\n".encode()


async def _check() -> None:
    pool = ProcessPool()
    upload = await open_csv(pool, new_id(), "ip", _chunks(), None)
    tracemalloc.start()
    async with buffer_to_disk(upload.rows()) as batches:
        count = sum([len(batch) async for batch in batches])
    print(count, tracemalloc.get_traced_memory()[1])
    await pool.close()


if __name__ == "__main__":
    asyncio.run(_check())
