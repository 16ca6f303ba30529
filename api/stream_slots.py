"""The number of streams and waits that an account has open in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from starlette.types import Receive, Scope, Send

from api.account_stream import AccountStream
from models.errors import TooManyStreams


class StreamSlot:
    """One of an account's places, until it is released."""

    def __init__(self, taken: Counter[UUID], account_id: UUID) -> None:
        self._taken: Counter[UUID] | None = taken
        self._account_id = account_id
        taken[account_id] += 1

    def release(self) -> None:
        """Release the place; a second call does nothing."""
        taken, self._taken = self._taken, None
        if taken is not None:
            taken[self._account_id] -= 1
            if not taken[self._account_id]:
                del taken[self._account_id]


class StreamSlots:
    """A fixed number of places for each account, in this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[UUID] = Counter()

    def take(self, account_id: UUID) -> StreamSlot:
        """Take a place.

        Raises:
            TooManyStreams: all are taken.
        """
        if self.are_taken(account_id):
            raise TooManyStreams(self._most)
        return StreamSlot(self._taken, account_id)

    @property
    def number_taken(self) -> int:
        """The number of places that are taken, by all accounts."""
        return self._taken.total()

    @contextmanager
    def hold(self, account_id: UUID) -> Generator[None]:
        """Take a place for the block. Raises the errors of `take`."""
        place = self.take(account_id)
        try:
            yield
        finally:
            place.release()

    def are_taken(self, account_id: UUID) -> bool:
        """Return whether the account has no place left."""
        return self._taken[account_id] >= self._most


class SlotStream(AccountStream):
    """A stream that holds a place until it ends."""

    def __init__(self, place: StreamSlot, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._place.release()
