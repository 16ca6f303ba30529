"""Server-sent events as a client sees them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx


class Seen(NamedTuple):
    """One event as a client sees it; without an id, that is empty."""

    name: str
    id: str
    data: dict[str, Any]


class Stream:
    """Events as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Seen | None:
        """The next event; None when the stream has ended."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(20):
            async for line in self._lines:
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    return Seen(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
        return None

    async def quiet(self) -> None:
        """Wait for a sign of life, with no event before it."""
        async with asyncio.timeout(20):
            async for line in self._lines:
                assert not line.startswith("data")
                if line.startswith(":"):
                    return

    async def all(self) -> list[Seen]:
        """Return what still comes, to the end."""
        events: list[Seen] = []
        while event := await self.next():
            events.append(event)
        return events


@asynccontextmanager
async def streaming(client: httpx.AsyncClient, path: str, **headers: str) -> AsyncGenerator[Stream]:
    """The events at a path; headers are named with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("GET", path, headers=named) as response:
        yield Stream(response)
