"""Streams whose reads of the database count as those of the account that asked."""

from __future__ import annotations

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.context import context_of
from database import Database


class AccountStream(StreamingResponse):
    """A stream that another task sends than that of its request: its reads count as its account's, too."""

    _lent: tuple[Database, str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        if (caller := context_of(scope).caller) is not None:
            self._lent = scope["app"].state.services.database, str(caller.account_id)
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send the stream, in a task of its own."""
        if self._lent is not None:
            database, borrower = self._lent
            database.lend_to(borrower)
        await super().stream_response(send)
