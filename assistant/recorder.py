"""The recorder of an answer: its events become rows, and its lease is renewed while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import psycopg

import logs
from database import Connection, Database
from models.chat import messages
from models.chat.messages import CHANNEL, LEASE_SECONDS, Lease, LeaseLost, StoredEvent
from notifications import Notifier
from sealing import Keyring

_log = logs.get(__name__)
_RENEW_SECONDS = LEASE_SECONDS / 4
_FLUSH_SECONDS = 0.1
_LONGEST_TEXT = 16 * 1024


class Recorder:
    """Records the events of one answer, in their order.

    Text comes in many small pieces: those of a tenth of a second are one event.
    """

    def __init__(self, database: Database, keyring: Keyring, notifier: Notifier, lease: Lease) -> None:
        self.database, self.keyring, self.lease = database, keyring, lease
        self._notifier = notifier
        self._number = 0
        self._text = ""
        self._has_text = asyncio.Event()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def keep_lease(self) -> AsyncGenerator[None]:
        """Renew the lease and record text as it comes, during the block.

        Raises:
            LeaseLost: the block was ended, because the lease is lost.
        """
        worker = asyncio.current_task()
        assert worker is not None
        lost = False

        async def renew() -> None:
            nonlocal lost
            try:
                while True:
                    await self._renew_once()
            except LeaseLost:
                lost = True
                worker.cancel()

        renewing = asyncio.create_task(renew())
        try:
            yield
        except asyncio.CancelledError:
            if lost and not worker.uncancel():
                raise LeaseLost from None
            raise
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _renew_once(self) -> None:
        try:
            async with asyncio.timeout(_RENEW_SECONDS):
                await self._has_text.wait()
            await asyncio.sleep(_FLUSH_SECONDS)
        except TimeoutError:
            pass
        try:
            await self.record()
        except psycopg.Error as error:
            # The lease decides: if the database stays away, it runs out.
            _log.warning("chat_lease_not_renewed", error=type(error).__name__)
            await asyncio.sleep(1)

    def add_text(self, text: str) -> None:
        """Add a piece of the model's text; it is recorded shortly."""
        self._text += text
        self._has_text.set()

    async def record(
        self,
        *events: tuple[str, dict[str, Any]],
        status: Literal["running", "waiting"] | None = None,
        write: Callable[[Connection], Awaitable[None]] | None = None,
        **added: int,
    ) -> None:
        """Renew the lease, and record the text so far and these events, in one transaction.

        Args:
            events: kinds and data.
            status: the message's new one; None leaves it.
            write: what else to write in the transaction, at its end.
            added: what the message has used on top, as in `messages.renew_lease`.

        Raises:
            LeaseLost: the task must stop.
        """
        async with self._turn:
            self._has_text.clear()
            text = self._text
            pieces = [text[at : at + _LONGEST_TEXT] for at in range(0, len(text), _LONGEST_TEXT)]
            told = [*(("text", {"text": piece}) for piece in pieces), *events]
            stored = [StoredEvent(self._number + place, *one) for place, one in enumerate(told, 1)]
            async with self.database.transaction() as connection:
                await messages.renew_lease(connection, self.lease, status=status, **added)
                if stored:
                    await messages.add_events(connection, self.keyring, self.lease, stored)
                if write is not None:
                    await write(connection)
            self._text = self._text[len(text) :]
            self._number += len(stored)
        self._notifier.notify(CHANNEL, str(self.lease.message_id))
