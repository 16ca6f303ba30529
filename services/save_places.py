"""The limit on concurrent saves of workflows per account, which protects connections and processors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

from models.errors import Unavailable
from services.keyed_locks import KeyedLocks

AT_A_TIME = 2
"""The most concurrent saves of an account, in a process of the API."""

_PATIENCE_SECONDS = 10.0


class SavesInProgress(Unavailable):
    """The account has so many saves in progress that this one was not started."""

    def __init__(self) -> None:
        message = "Other workflows of this account are being saved; send this again."
        super().__init__("saves_in_progress", message, retry_after=2)


class SavePlaces:
    """The places for saves of each account. A caller that finds none free waits briefly."""

    def __init__(self) -> None:
        self._locks = KeyedLocks(AT_A_TIME)

    @asynccontextmanager
    async def hold(self, account_id: UUID) -> AsyncGenerator[None]:
        """Hold a place for the block.

        Raises:
            SavesInProgress: no place became free in time.
        """
        place = self._locks.hold(account_id)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await place.acquire()
        except TimeoutError:
            raise SavesInProgress from None
        try:
            yield
        finally:
            place.release()
