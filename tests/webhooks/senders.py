"""Deliveries of a person's webhooks, without a worker: queued, ended and attempted as a worker writes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from database import Database
from models.events import events
from models.events.event_data import CreditsLow, EventData, KeyCreated
from models.identifiers import new_id
from models.webhooks import delivery_work
from models.webhooks.delivery_writes import Attempt, Change, Ending, record_attempts_if_leased
from tests.api_server import Person

PATH = "/api/webhooks"
KEY_CREATED = KeyCreated(
    key_id=UUID(int=1), name="Zoë 🔑", key_preview="…", scopes=["lookups"], expires_at=None
)
CREDITS_LOW = CreditsLow(balance=1, low_balance_threshold=2)


async def webhook(person: Person, url: str = "https://example.com/", **wanted: Any) -> dict[str, Any]:
    """A new webhook, with its secret."""
    response = await person.key.post(PATH, json={"url": url, "events": ["*"], **wanted})
    assert response.status_code == 201, response.text
    return response.json()


async def emit(database: Database, person: Person, *data: EventData) -> list[UUID]:
    """These events, in one transaction; `key.created` without any."""
    async with database.transaction() as connection:
        return [await events.emit(connection, person.account.id, one) for one in data or (KEY_CREATED,)]


async def attempted(
    database: Database, ending: Ending, *, status: int | None = 500, body: str | None = "no"
) -> list[UUID]:
    """Claim all that waits, of whomever, and write that one attempt at each brought this. The deliveries."""
    batch_id, executor = new_id(), new_id()
    async with database.connection() as connection:
        claim = await delivery_work.claim(connection, batch_id, window=1000)
        if claim is None or not claim.claimed:
            return []
        taken = await delivery_work.take_batch(connection, batch_id, executor)
    fault: dict[str, Any] = (
        {} if ending == "delivered" else {"code": "http_status", "message": f"It answered {status}."}
    )
    changes = [
        Change(
            batch_id, executor, one.delivery_id,
            Attempt(one.manual, one.created_at + timedelta(seconds=1), 20, status, body, **fault),
            ending, delay=300,
        )
        for one in taken
    ]  # fmt: skip
    async with database.transaction() as connection:
        written = await record_attempts_if_leased(connection, changes)
    assert written == {one.delivery_id for one in taken}
    return [one.delivery_id for one in taken]


async def work(database: Database, delivery_ids: Sequence[UUID | str]) -> dict[str, dict[str, Any]]:
    """Return what is at work or waits of these deliveries."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select * from delivery_work where delivery_id = any(%s::uuid[])", (list(delivery_ids),)
        )
        return {str(row["delivery_id"]): row for row in await cursor.fetchall()}


async def listed(person: Person, **query: Any) -> list[dict[str, Any]]:
    """The deliveries of a page."""
    response = await person.key.get(f"{PATH}/deliveries", params=query)
    assert response.status_code == 200, response.text
    return response.json()["deliveries"]


def moment(text: str) -> datetime:
    """A time of an answer."""
    return datetime.fromisoformat(text)
