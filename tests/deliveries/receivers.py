"""Endpoints of an account with real receivers behind them, and what became of their deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import jsonschema_rs

from database import Connection, Database
from models.audit import Actor
from models.events import events
from models.events.event_data import KeyCreated
from models.events.event_types import EVENT_TYPES
from models.identifiers import new_id
from models.webhooks import endpoints
from models.webhooks.endpoints import EndpointSettings
from outbound.signing import new_secret
from sealing import Keyring
from tests.automations.engine import Endpoint, until


@dataclass
class Hooks:
    """What tests do with the endpoints of an account."""

    database: Database
    keyring: Keyring
    account_id: UUID
    secret: str = field(default_factory=new_secret)

    @property
    def actor(self) -> Actor:
        return Actor(self.account_id, "system", name="test")

    async def endpoint(self, url: str, *, events: Sequence[str] = ("*",), **chosen: Any) -> UUID:
        """A new endpoint; its id."""
        wanted = EndpointSettings(url, events, None, chosen.get("headers", {}), chosen.get("rate_limit"))
        async with self.database.transaction() as connection:
            made = await endpoints.create(connection, self.keyring, self.actor, wanted, self.secret)
        return made.id

    async def emit(self, count: int = 1, name: str = "CI") -> list[UUID]:
        """So many events `key.created`, in one transaction; their ids."""
        data = KeyCreated(key_id=new_id(), name=name, key_preview="…", scopes=[], expires_at=None)
        async with self.database.transaction() as connection:
            return [await events.emit(connection, self.account_id, data) for _ in range(count)]

    async def rows(self) -> list[dict[str, Any]]:
        """All deliveries of the account, in the order of their events."""
        async with self.database.connection() as connection:
            return await deliveries_of(connection, self.account_id)

    async def settled(self, seconds: float = 30) -> list[dict[str, Any]]:
        """All deliveries of the account once none is pending."""

        async def look() -> list[dict[str, Any]] | None:
            rows = await self.rows()
            return rows if rows and all(row["status"] != "pending" for row in rows) else None

        return await until(look, seconds)

    async def attempts(self) -> list[dict[str, Any]]:
        """All attempts at deliveries of the account, by event and number."""
        async with self.database.connection() as connection:
            cursor = await connection.execute(
                "select d.event_id, a.* from deliveries d join delivery_attempts a on a.delivery_id = d.id"
                " where d.account_id = %s order by d.event_id, a.number",
                (self.account_id,),
            )
            return await cursor.fetchall()

    async def endpoint_row(self, endpoint_id: UUID) -> dict[str, Any]:
        """An endpoint as its row has it."""
        async with self.database.connection() as connection:
            cursor = await connection.execute("select * from endpoints where id = %s", (endpoint_id,))
            row = await cursor.fetchone()
        assert row is not None
        return row


async def deliveries_of(connection: Connection, account_id: UUID) -> list[dict[str, Any]]:
    cursor = await connection.execute(
        "select * from deliveries where account_id = %s order by event_id, endpoint_id", (account_id,)
    )
    return await cursor.fetchall()


def times(receiver: Endpoint) -> Counter[str]:
    """Return how often each message was sent."""
    return Counter(request["headers"]["webhook-id"] for request in receiver.requests)


async def recorded(hooks: Hooks) -> set[tuple[str, int, int]]:
    """Status and attempts of the deliveries, and how many attempts the log has of each."""
    log = Counter(one["event_id"] for one in await hooks.attempts())
    return {(row["status"], row["attempts"], log[row["event_id"]]) for row in await hooks.rows()}


async def told(hooks: Hooks) -> list[dict[str, Any]]:
    """The events of the account in their order, each held against its schema."""
    async with hooks.database.connection() as connection:
        cursor = await connection.execute(
            "select type, data from events where account_id = %s order by id", (hooks.account_id,)
        )
        rows = await cursor.fetchall()
    for row in rows:
        jsonschema_rs.validate(EVENT_TYPES[row["type"]].data_schema(), row["data"])
    return rows
