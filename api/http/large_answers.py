"""Answers of several MiB: made and sent one at a time for an account, so that few of them are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from fastapi import Response
from starlette.types import Receive, Scope, Send

import logs
from api.deps import Services
from models.run_values import ROOM, SMALL, Omitted
from models.runs import runs
from models.runs.run_views import RunView
from models.views import StoredJson

_log = logs.get(__name__)
_PIECE_BYTES = 64 * 1024
# A client that does not read blocks its own account's next large answer for this long.
_PIECE_SECONDS = 10.0


class LargeAnswer(Response):
    """JSON that is made in the account's turn; the turn ends when the client has read it."""

    def __init__(self, turn: asyncio.Semaphore, make: Callable[[], Awaitable[bytes]]) -> None:
        super().__init__(media_type="application/json")
        self._turn = turn
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Make and send the answer."""
        async with self._turn:
            self.body = await self._make()
            self.headers["Content-Length"] = str(len(self.body))
            try:
                await self._send(send)
            except TimeoutError:
                _log.warning("answer_not_read", bytes=len(self.body))

    async def _send(self, send: Send) -> None:
        head: dict[str, Any] = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        body = memoryview(self.body)
        for start in range(0, max(1, len(body)), _PIECE_BYTES):
            piece, more = body[start : start + _PIECE_BYTES], start + _PIECE_BYTES < len(body)
            async with asyncio.timeout(_PIECE_SECONDS):
                await send({"type": "http.response.body", "body": bytes(piece), "more_body": more})


def turn_of(services: Services, account_id: UUID) -> asyncio.Semaphore:
    """Return the semaphore that limits the large answers of an account."""
    return services.locks.hold(("large answer", account_id))


async def read_run(services: Services, account_id: UUID, run_id: UUID) -> RunView:
    """Read a run with all its values that fit; a large one in the account's turn.

    Raises:
        NotFound: unknown, or another account's.
    """
    async with services.database.connection() as connection:
        view = await runs.get(connection, account_id, run_id, room=SMALL)
    if view.is_whole():
        return view
    async with turn_of(services, account_id), services.database.connection() as connection:
        return await runs.get(connection, account_id, run_id, room=ROOM)


async def read_output(services: Services, account_id: UUID, run_id: UUID) -> StoredJson | Omitted | None:
    """Read the output of a run of the account, in its turn."""
    async with turn_of(services, account_id), services.database.connection() as connection:
        return await runs.get_output(connection, run_id)
