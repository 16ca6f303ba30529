"""Claims without a worker: as of a process that has died the moment they were committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from database import Connection, Database
from models.identifiers import new_id
from models.webhooks import delivery_work
from models.webhooks.delivery_writes import Attempt, Change, record_attempts_if_leased
from services import delivery_attempts


@dataclass(frozen=True)
class Claimed:
    """A claim.

    Attributes:
        deliveries: what was claimed.
        endpoints: how many of these each endpoint gets.
        accounts: the same by account.
        seconds: until one that is paused or held to a rate has its turn.
    """

    batch_id: UUID
    deliveries: list[UUID]
    endpoints: Counter[UUID]
    accounts: Counter[UUID]
    seconds: float | None


async def claim(database: Database, *, rows: int = 256, window: int = 1024) -> Claimed:
    """Claim once; nothing may have been found."""
    async with database.connection() as connection:
        batch_id = new_id()
        found = await delivery_work.claim(connection, batch_id, window=window, rows=rows)
        cursor = await connection.execute(
            "select delivery_id, endpoint_id, account_id from delivery_work where batch_id = %s", (batch_id,)
        )
        claimed = await cursor.fetchall()
    assert len(claimed) == (found.claimed if found else 0)
    return Claimed(
        batch_id,
        [row["delivery_id"] for row in claimed],
        Counter(row["endpoint_id"] for row in claimed),
        Counter(row["account_id"] for row in claimed),
        found.seconds if found else None,
    )


def attempt(status: int | None = 200, **told: Any) -> Attempt:
    """An attempt that was answered so; with None it timed out."""
    code = None if status == 200 else "http_status" if status else "timeout"
    return Attempt(False, datetime.now(UTC), 5, status, None, code, code, **told)


def change(
    batch_id: UUID, executor: UUID, delivery_id: UUID, made: Attempt, schedule: tuple[float, ...] = (3600.0,)
) -> Change:
    """Return what an executor writes of an attempt."""
    return Change(batch_id, executor, delivery_id, made, *delivery_attempts.decide_next(made, 0, schedule))


async def end(
    connection: Connection, claimed: Claimed, made: Attempt, deliveries: Collection[UUID] | None = None
) -> set[UUID]:
    """Have all, or these, deliveries of a claim end so. Returns what was written."""
    executor, wanted = new_id(), claimed.deliveries if deliveries is None else deliveries
    await delivery_work.take_batch(connection, claimed.batch_id, executor)
    async with connection.transaction():
        changes = [change(claimed.batch_id, executor, one, made) for one in wanted]
        return await record_attempts_if_leased(connection, changes)
