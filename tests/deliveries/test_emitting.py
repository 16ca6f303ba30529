"""Events are written with what they tell of and become deliveries to who wants them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from psycopg.sql import SQL, Identifier

from database import Database
from models.events import events
from models.events.event_data import KeyCreated
from models.identifiers import new_id
from models.webhooks import endpoints
from tests.automations.engine import until
from tests.deliveries.receivers import Hooks

NOWHERE = "http://127.0.0.1:9/"


def data() -> KeyCreated:
    return KeyCreated(key_id=new_id(), name="CI", key_preview="…", scopes=[], expires_at=None)


async def counts(hooks: Hooks) -> dict[str, int]:
    """Return how many rows the account has."""
    async with hooks.database.connection() as connection:
        found: dict[str, int] = {}
        for table in ("events", "deliveries", "delivery_work"):
            query = SQL("select count(*) as n from {} where account_id = %s").format(Identifier(table))
            row: Any = await (await connection.execute(query, (hooks.account_id,))).fetchone()
            found[table] = row["n"]
    return found


async def test_what_is_rolled_back_has_never_happened(hooks: Hooks) -> None:
    await hooks.endpoint(NOWHERE)

    class RolledBack(Exception):
        """The cause did not come to be."""

    with pytest.raises(RolledBack):
        async with hooks.database.transaction() as connection:
            await events.emit(connection, hooks.account_id, data())
            raise RolledBack
    assert set((await counts(hooks)).values()) == {0}


async def test_an_event_that_nobody_wants_is_not_kept(hooks: Hooks) -> None:
    await hooks.endpoint(NOWHERE, events=["monitor.*"])
    await hooks.emit()
    assert set((await counts(hooks)).values()) == {0}


async def test_each_endpoint_that_wants_an_event_gets_a_delivery_of_it(hooks: Hooks) -> None:
    for wanted in (["*"], ["key.*", "key.created"], ["monitor.*"]):
        await hooks.endpoint(NOWHERE, events=wanted)
    await hooks.emit(2)
    assert await counts(hooks) == {"events": 2, "deliveries": 4, "delivery_work": 4}


async def test_the_ids_of_events_sort_by_time(hooks: Hooks) -> None:
    await hooks.endpoint(NOWHERE)
    ids = list[UUID]()
    for _ in range(5):
        ids += await hooks.emit()
    assert {one.version for one in ids} == {7}
    # To the millisecond.
    moments = [one.int >> 80 for one in ids]
    now = int(datetime.now(UTC).timestamp() * 1000)
    assert moments == sorted(moments) and now - 60_000 < moments[0] and moments[-1] < now + 1000


# An endpoint that is deleted at the same moment


async def waits_for_a_lock(database: Database) -> bool:
    async with database.connection() as looking:
        cursor = await looking.execute(
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return await cursor.fetchone() is not None


async def delete(hooks: Hooks, endpoint_id: UUID) -> None:
    async with hooks.database.transaction() as connection:
        await endpoints.delete(connection, hooks.actor, endpoint_id)


async def test_an_event_beside_the_end_of_an_endpoint_goes_to_the_others(hooks: Hooks) -> None:
    gone, stays = [await hooks.endpoint(NOWHERE) for _ in range(2)]
    async with hooks.database.transaction() as connection:
        await endpoints.delete(connection, hooks.actor, gone)
        emitting = asyncio.create_task(hooks.emit())
        await until(lambda: waits_for_a_lock(hooks.database))
    await emitting
    assert {row["endpoint_id"] for row in await hooks.rows()} == {stays}
    assert await counts(hooks) == {"events": 1, "deliveries": 1, "delivery_work": 1}


async def test_the_end_of_an_endpoint_waits_for_an_event_and_leaves_no_work(hooks: Hooks) -> None:
    endpoint_id = await hooks.endpoint(NOWHERE)
    async with hooks.database.transaction() as connection:
        await events.emit(connection, hooks.account_id, data())
        deleting = asyncio.create_task(delete(hooks, endpoint_id))
        await until(lambda: waits_for_a_lock(hooks.database))
    await deleting
    assert await counts(hooks) == {"events": 1, "deliveries": 1, "delivery_work": 0}
    assert [row["status"] for row in await hooks.rows()] == ["failed"]
