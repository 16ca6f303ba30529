"""Postgres or Temporal away, and workflows that are lost: every delivery is made, and recorded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from database import Database
from embedded.postgres import Postgres
from embedded.temporal import Temporal
from models.webhooks import delivery_recovery
from temporal import starts
from tests.automations.engine import Endpoint, Work, requested, until
from tests.deliveries.claims import claim
from tests.deliveries.receivers import Hooks, recorded, times
from tests.stacks import free_port

pytestmark = pytest.mark.long

NewHooks = Callable[[], Awaitable[Hooks]]


async def batch_rows(database: Database) -> list[dict[str, Any]]:
    async with database.connection() as connection:
        cursor = await connection.execute("select * from delivery_batches order by id")
        return await cursor.fetchall()


async def make_unseen(database: Database) -> None:
    """What batches look like when nobody has looked at them for long."""
    async with database.connection() as connection:
        await connection.execute("update delivery_batches set probed_at = now() - interval '1 day'")


async def no_batch_is_left(database: Database) -> None:
    async def none() -> bool:
        await make_unseen(database)
        async with database.connection() as connection:
            await delivery_recovery.delete_empty_batches(connection)
        return not await batch_rows(database)

    await until(none)


async def test_deliveries_are_recorded_once_when_postgres_is_restarted_meanwhile(
    postgres: Postgres, at_work: Work, database: Database, new_hooks: NewHooks, receiver: Endpoint
) -> None:
    held, waits = await new_hooks(), await new_hooks()
    await held.endpoint(f"{receiver.url}/held")
    await waits.endpoint(f"http://127.0.0.1:{free_port()}/")
    async with at_work(schedule=(2.0,)):
        await held.emit(50)
        await waits.emit(5)
        await requested(receiver, 50)
        await postgres.stop()
        receiver.open.set()
        await postgres.start()
        await until(lambda: answers(database))
        await held.settled()
        await waits.settled()
    assert await recorded(held) == {("delivered", 1, 1)}
    assert await recorded(waits) == {("failed", 2, 2)}
    assert len(times(receiver)) == 50 and set(times(receiver).values()) == {1}


async def answers(database: Database) -> bool:
    try:
        async with database.connection() as connection:
            await connection.execute("select 1")
    except Exception:
        return False
    return True


async def test_what_comes_while_temporal_is_away_is_delivered_when_it_is_back(
    temporal_server: Temporal, at_work: Work, database: Database, hooks: Hooks, receiver: Endpoint
) -> None:
    await hooks.endpoint(receiver.url)
    async with at_work():
        await hooks.emit()
        await hooks.settled()
        await no_batch_is_left(database)
        await temporal_server.stop()
        try:
            await hooks.emit(5)

            async def claimed() -> bool:
                return any(row["started_at"] is None for row in await batch_rows(database))

            await until(claimed)
        finally:
            await temporal_server.start()
        await hooks.settled()
    assert await recorded(hooks) == {("delivered", 1, 1)}
    assert set(times(receiver).values()) == {1}


StartDeliveries = Callable[..., Awaitable[None]]


def unavailable() -> RPCError:
    return RPCError("it is away", RPCStatusCode.UNAVAILABLE, b"")


@pytest.mark.parametrize("lost", ["the start", "its reply"])
async def test_a_batch_whose_start_was_lost_is_started_again_under_its_id(
    at_work: Work,
    database: Database,
    hooks: Hooks,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    start, tried = starts.start_deliveries, list[UUID]()

    async def lose_at_first(client: Client, batch_id: UUID, *rest: Any, **options: Any) -> None:
        tried.append(batch_id)
        if tried.count(batch_id) > 1 or lost == "its reply":
            await start(client, batch_id, *rest, **options)
        if tried.count(batch_id) == 1:
            raise unavailable()

    monkeypatch.setattr(starts, "start_deliveries", lose_at_first)
    await hooks.endpoint(f"{receiver.url}/held")
    await hooks.emit(5)
    async with at_work():

        async def started() -> bool:
            rows = await batch_rows(database)
            if rows and rows[0]["started_at"] is None and tried:
                await make_unseen(database)
            return bool(rows) and rows[0]["started_at"] is not None

        await until(started)
        await requested(receiver, 5)
        receiver.open.set()
        await hooks.settled()
        await no_batch_is_left(database)
    assert len(set(tried)) == 1
    assert await recorded(hooks) == {("delivered", 1, 1)}
    assert set(times(receiver).values()) == {1}


async def test_the_deliveries_of_a_terminated_batch_go_in_another(
    at_work: Work, database: Database, client: Client, hooks: Hooks, receiver: Endpoint
) -> None:
    await hooks.endpoint(receiver.url)
    await hooks.emit(5)
    batch_id = (await claim(database)).batch_id
    await starts.start_deliveries(client, batch_id, 5)
    await client.get_workflow_handle(starts.delivery_workflow_id(batch_id)).terminate()
    await make_unseen(database)
    async with at_work():
        await hooks.settled()
        await no_batch_is_left(database)
    assert await recorded(hooks) == {("delivered", 1, 1)}
    assert set(times(receiver).values()) == {1}


async def test_what_waits_in_a_terminated_batch_goes_when_it_is_due(
    at_work: Work, database: Database, client: Client, hooks: Hooks, receiver: Endpoint
) -> None:
    await hooks.endpoint(f"http://127.0.0.1:{free_port()}/")
    async with at_work(schedule=(3600.0,)):
        await hooks.emit(5)

        async def wait() -> bool:
            return await recorded(hooks) == {("pending", 1, 1)}

        await until(wait)
        [batch] = await batch_rows(database)
        await client.get_workflow_handle(starts.delivery_workflow_id(batch["id"])).terminate()
        async with database.connection() as connection:
            await connection.execute(
                "update endpoints set url = %s where account_id = %s", (receiver.url, hooks.account_id)
            )
            await connection.execute("update delivery_work set wake_at = now()")
        await hooks.settled()
        await no_batch_is_left(database)
    assert await recorded(hooks) == {("delivered", 2, 2)}
    assert len(times(receiver)) == 5 and set(times(receiver).values()) == {1}


async def test_a_batch_that_goes_on_is_left_alone(
    at_work: Work, database: Database, hooks: Hooks, receiver: Endpoint
) -> None:
    await hooks.endpoint(f"{receiver.url}/held")
    async with at_work():
        await hooks.emit()
        await requested(receiver, 1)
        await make_unseen(database)

        async def probed() -> bool:
            async with database.connection() as connection:
                cursor = await connection.execute(
                    "select from delivery_batches where probed_at > now() - interval '1 hour'"
                )
                return await cursor.fetchone() is not None

        await until(probed)
        receiver.open.set()
        await hooks.settled()
    assert Counter(receiver.paths) == {"/held": 1}
    assert await recorded(hooks) == {("delivered", 1, 1)}
