"""The events of an answer of the assistant, live or later: they are rows, which any process can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from pydantic import RootModel

from api.auth.credentials import Presented
from api.deps import Services
from api.streams.live_events import END_ID, Event, follow
from models.chat import messages
from models.chat.messages import MessageView, StoredEvent
from services.run_waiter import woken

Found = tuple[list[StoredEvent], MessageView]


class ChatEvent(RootModel[dict[str, Any]]):
    """The data of an event."""


class _EventReader:
    """Reads the events of a message from a number on."""

    def __init__(
        self, services: Services, account_id: UUID, conversation_id: UUID, message_id: UUID, after: int
    ) -> None:
        self._services, self._account_id = services, account_id
        self._conversation_id, self._message_id = conversation_id, message_id
        self._after = after
        self._news = asyncio.Event()

    @contextmanager
    def reading(self) -> Generator[_EventReader]:
        """Be woken by new events during the block."""
        with self._services.waiter.subscribe(self._message_id) as self._news:
            yield self

    async def next(self, seconds: float) -> Found | None:
        """Return new events, and the message; None if nothing is new after `seconds`."""
        found = await self._read()
        if found is None:
            await woken(self._news, seconds)
            found = await self._read()
        return found

    async def _read(self) -> Found | None:
        keyring, account_id = self._services.keyring, self._account_id
        async with self._services.database.connection() as connection:
            # The message is read first: if it has ended, all of its events are there.
            view = await messages.get(
                connection, keyring, account_id, self._conversation_id, self._message_id
            )
            events = await messages.read_events(
                connection, keyring, account_id, self._message_id, self._after
            )
        if events:
            self._after = events[-1].number
        return (events, view) if events or has_ended(view) else None


def has_ended(view: MessageView) -> bool:
    """Return whether no further event comes."""
    return view.status not in ("running", "waiting")


def read_number(seen: str | None) -> int:
    """Return the number of the last event that a client has seen; 0 for none."""
    return int(seen[:9]) if seen and seen.isascii() and seen.isdecimal() else 0


def stream(
    services: Services, credential: Presented, account_id: UUID, ids: tuple[UUID, UUID], seen: str | None
) -> AsyncGenerator[bytes]:
    """Return the events of a message until its answer ends.

    Args:
        services: of the application.
        credential: the client's credential.
        account_id: the owner.
        ids: of the conversation and the message.
        seen: the id of the last event that the client has received, or None.
    """
    reader = _EventReader(services, account_id, *ids, read_number(seen))

    def events(found: Found) -> tuple[Sequence[Event], bool]:
        stored, view = found
        news = [Event(one.kind, str(one.number), ChatEvent(one.data)) for one in stored]
        return ([*news, Event("end", END_ID, view)], True) if has_ended(view) else (news, False)

    return follow(services, credential, ids[1], reader.reading(), events)
