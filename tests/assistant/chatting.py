"""A conversation as a client has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.api_server import Person
from tests.event_streams import Seen, Stream, streaming

ROOT = "/api/chat"


@dataclass
class Chat:
    """A conversation."""

    person: Person
    id: str

    @classmethod
    async def begin(cls, person: Person, **body: Any) -> Chat:
        """Agree to the model's host, and begin a conversation."""
        state = (await person.session.get(ROOT)).json()
        agreed = await person.session.put(f"{ROOT}/consent", json={"host": state["host"]})
        assert agreed.status_code == 204, agreed.text
        made = await person.session.post(f"{ROOT}/conversations", json=body)
        assert made.status_code == 201, made.text
        return cls(person, made.json()["id"])

    @property
    def path(self) -> str:
        return f"{ROOT}/conversations/{self.id}"

    async def try_to_send(self, text: str, **body: Any) -> httpx.Response:
        return await self.person.session.post(f"{self.path}/messages", json={"text": text, **body})

    async def send(self, text: str, **body: Any) -> str:
        """Send a message; return its id."""
        sent = await self.try_to_send(text, **body)
        assert sent.status_code == 202, sent.text
        return sent.json()["id"]

    @asynccontextmanager
    async def follow(self, message: str, **headers: str) -> AsyncGenerator[Stream]:
        async with streaming(
            self.person.session, f"{self.path}/messages/{message}/events", **headers
        ) as stream:
            yield stream

    async def read(self, message: str) -> list[Seen]:
        """Return all events of a message, to its end."""
        async with self.follow(message) as stream:
            return await stream.all()

    async def ask(self, text: str, **body: Any) -> list[Seen]:
        """Send a message, and return all events of its answer."""
        return await self.read(await self.send(text, **body))

    async def find_card(self, stream: Stream) -> dict[str, Any]:
        """Return the next card of a stream."""
        while event := await stream.next():
            if event.name == "approval":
                return event.data
        raise AssertionError("the answer has ended without a card")

    async def decide(self, card: dict[str, Any], decision: str, **body: Any) -> httpx.Response:
        given = {"decision": decision, "arguments_hash": card["arguments_hash"], **body}
        return await self.person.session.post(f"{self.path}/approvals/{card['id']}", json=given)

    async def get(self) -> dict[str, Any]:
        return (await self.person.session.get(self.path)).json()


def names(events: list[Seen]) -> list[str]:
    return [event.name for event in events]


def said(events: list[Seen]) -> str:
    """The text as it came, in pieces."""
    return "".join(event.data["text"] for event in events if event.name == "text")


def the(events: list[Seen], name: str) -> dict[str, Any]:
    """The data of the one event of this name."""
    [found] = [event.data for event in events if event.name == name]
    return found
