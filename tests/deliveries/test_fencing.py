"""The record of attempts: whoever was overtaken writes nothing, and what an endpoint did is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from activities.deliveries import PARAMETERS
from database import Connection, Database
from models.identifiers import new_id
from models.webhooks import delivery_recovery, delivery_work, endpoints
from models.webhooks.delivery_writes import Change, record_attempts_if_leased
from tests.automations.engine import until
from tests.deliveries.claims import attempt, change, claim, end
from tests.deliveries.receivers import Hooks

pytestmark = pytest.mark.usefixtures("nothing_waits")

NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
async def nothing_waits(database: Database) -> None:
    """What earlier tests left is gone."""
    async with database.connection() as connection:
        await connection.execute("truncate delivery_work, delivery_batches, endpoints")


@pytest.fixture
async def taken(database: Database, hooks: Hooks) -> Change:
    """Return what the executor of a batch is about to write of its only delivery."""
    await hooks.endpoint(NOWHERE)
    await hooks.emit()
    claimed, executor = await claim(database), new_id()
    async with database.connection() as connection:
        [delivery] = await delivery_work.take_batch(connection, claimed.batch_id, executor)
    return change(claimed.batch_id, executor, delivery.delivery_id, attempt())


async def rows_of(connection: Connection, change: Change) -> list[Any]:
    rows: list[Any] = []
    for query in (
        "select * from delivery_work where delivery_id = %s",
        "select * from deliveries where id = %s",
        "select * from delivery_attempts where delivery_id = %s",
        "select e.* from endpoints e join deliveries d on d.endpoint_id = e.id where d.id = %s",
    ):
        cursor = await connection.execute(query, (change.delivery_id,))
        rows += await cursor.fetchall()
    return rows


async def take_over(connection: Connection, batch_id: UUID) -> None:
    await delivery_work.take_batch(connection, batch_id, new_id())


async def give_back(connection: Connection, batch_id: UUID) -> None:
    assert await delivery_recovery.requeue_batch(connection, batch_id) == 1


OVERTAKEN = {"taken over": take_over, "given back": give_back}
OUTCOMES = {
    "a success": attempt(),
    "a failure": attempt(500),
    "the end of the endpoint": attempt(410),
}


@pytest.mark.parametrize("how", OVERTAKEN)
@pytest.mark.parametrize("what", OUTCOMES)
async def test_who_was_overtaken_can_write_nothing(
    database: Database, taken: Change, how: str, what: str
) -> None:
    late = change(taken.batch_id, taken.executor, taken.delivery_id, OUTCOMES[what])
    async with database.connection() as connection:
        await OVERTAKEN[how](connection, taken.batch_id)
        before = await rows_of(connection, taken)
        async with connection.transaction():
            assert await record_attempts_if_leased(connection, [late]) == set()
        assert await rows_of(connection, taken) == before


@pytest.mark.parametrize("what", OUTCOMES)
async def test_what_is_recorded_is_not_recorded_again(database: Database, taken: Change, what: str) -> None:
    told = change(taken.batch_id, taken.executor, taken.delivery_id, OUTCOMES[what])
    async with database.connection() as connection:
        async with connection.transaction():
            assert await record_attempts_if_leased(connection, [told]) == {told.delivery_id}
        before = await rows_of(connection, taken)
        async with connection.transaction():
            assert await record_attempts_if_leased(connection, [told]) == set()
        assert await rows_of(connection, taken) == before


async def test_a_take_over_waits_for_a_write_that_has_begun_and_does_not_send_again(
    database: Database, taken: Change
) -> None:
    async def take() -> list[Any]:
        async with database.connection() as connection:
            return list(await delivery_work.take_batch(connection, taken.batch_id, new_id()))

    async def waits() -> bool:
        async with database.connection() as looking:
            cursor = await looking.execute(
                "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
                " and query like '%delivery_batches%for update%'"
            )
            return await cursor.fetchone() is not None

    async with database.transaction() as connection:
        assert await record_attempts_if_leased(connection, [taken]) == {taken.delivery_id}
        taking = asyncio.create_task(take())
        await until(waits)
    assert await taking == []


async def test_a_take_over_outlasts_a_writer_that_has_stopped_within_its_write(
    database: Database, taken: Change
) -> None:
    writer = Database(database.url, name="tests", parameters=PARAMETERS)
    await writer.open()
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        async with writer.transaction() as stopped:
            await record_attempts_if_leased(stopped, [taken])
            async with database.connection() as connection:
                assert len(await delivery_work.take_batch(connection, taken.batch_id, new_id())) == 1
    await writer.close()
    assert await is_at_work(database, taken)


async def is_at_work(database: Database, change: Change) -> bool:
    """Return whether the delivery is still to be made."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select attempts from delivery_work where delivery_id = %s and status = 'running'",
            (change.delivery_id,),
        )
        return [row["attempts"] for row in await cursor.fetchall()] == [0]


async def test_of_many_written_together_only_what_was_overtaken_is_dropped(
    database: Database, hooks: Hooks
) -> None:
    await hooks.endpoint(NOWHERE)
    await hooks.emit(6)
    claims, changes = [await claim(database, rows=3) for _ in range(2)], list[Change]()
    async with database.connection() as connection:
        for one in claims:
            executor = new_id()
            await delivery_work.take_batch(connection, one.batch_id, executor)
            changes += [change(one.batch_id, executor, delivery, attempt()) for delivery in one.deliveries]
        await take_over(connection, claims[0].batch_id)
        async with connection.transaction():
            written = await record_attempts_if_leased(connection, changes)
    assert written == set(claims[1].deliveries)


async def test_an_executor_writes_only_deliveries_of_its_own_batch(
    database: Database, hooks: Hooks, taken: Change
) -> None:
    await hooks.emit()
    another = await claim(database)
    async with database.connection() as connection, connection.transaction():
        stray = replace(taken, delivery_id=another.deliveries[0])
        assert await record_attempts_if_leased(connection, [stray]) == set()


# What an endpoint did


async def test_one_success_among_failures_makes_an_endpoint_sound(database: Database, hooks: Hooks) -> None:
    endpoint_id = await hooks.endpoint(NOWHERE)
    await hooks.emit(4)

    async def state() -> tuple[int, bool]:
        row = await hooks.endpoint_row(endpoint_id)
        return row["strikes"], row["failing_since"] is not None

    async with database.connection() as connection:
        for made, expected in ((500, (1, True)), (None, (2, True)), (200, (0, False)), (429, (1, True))):
            await end(connection, await claim(database, rows=1), attempt(made))
            assert await state() == expected


async def test_a_failure_that_lasts_for_five_days_switches_off_and_tells_once(
    database: Database, hooks: Hooks
) -> None:
    endpoint_id = await hooks.endpoint(NOWHERE, events=["key.created"])
    await hooks.endpoint(NOWHERE, events=["webhook.disabled"])
    await hooks.emit(2)
    first, second = [await claim(database, rows=1) for _ in range(2)]
    async with database.connection() as connection:
        await connection.execute(
            "update endpoints set failing_since = now() - interval '5 days' where id = %s", (endpoint_id,)
        )
        for one in (first, second):
            await end(connection, one, attempt(500))
        cursor = await connection.execute(
            "select data from events where account_id = %s and type = 'webhook.disabled'",
            (hooks.account_id,),
        )
        [told] = await cursor.fetchall()
    assert (told["data"]["webhook_id"], told["data"]["reason"]) == (str(endpoint_id), "failing")
    assert not (await hooks.endpoint_row(endpoint_id))["is_active"]


Chosen = Callable[[Connection, Hooks, UUID], Awaitable[Any]]
CHANGES: dict[str, Chosen] = {
    "deleted": lambda connection, hooks, one: endpoints.delete(connection, hooks.actor, one),
    "switched off": lambda connection, hooks, one: endpoints.change(
        connection, hooks.keyring, hooks.actor, one, {"is_active": False}
    ),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_an_endpoint_that_is_changed_while_it_is_sent_to_breaks_no_record(
    database: Database, hooks: Hooks, taken: Change, what: str
) -> None:
    [row] = await hooks.rows()
    async with database.transaction() as connection:
        await CHANGES[what](connection, hooks, row["endpoint_id"])
    async with database.connection() as connection, connection.transaction():
        written = await record_attempts_if_leased(connection, [taken])
    assert written == (set() if what == "deleted" else {taken.delivery_id})
    [row] = await hooks.rows()
    assert row["status"] == ("failed" if what == "deleted" else "delivered")
