"""Long answers, sent while they are read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from typing import Any

import orjson


async def json_array(chunks: AsyncIterable[Sequence[Any]]) -> AsyncGenerator[bytes]:
    """Yield one array of the items of all chunks, none of which is empty."""
    opening = b"["
    async for chunk in chunks:
        yield opening + orjson.dumps(chunk, option=orjson.OPT_UTC_Z)[1:-1]
        opening = b","
    yield b"[]" if opening == b"[" else b"]"


async def json_lines(chunks: AsyncIterable[Sequence[Any]]) -> AsyncGenerator[bytes]:
    """Yield each item on a line of its own."""
    async for chunk in chunks:
        yield b"".join(orjson.dumps(item) + b"\n" for item in chunk)
