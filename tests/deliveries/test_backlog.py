"""Batches that nobody has begun to send: there are few of them, and what comes meanwhile goes together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client

from database import Connection, Database
from dispatch import deliveries as delivery_dispatcher
from dispatch.deliveries import DeliveryDispatcher
from dispatch.loop import DispatchServices
from execution.claim_gate import ClaimGate, FailureWatch
from execution.loop_lag import LoopLag
from models.identifiers import new_id
from models.webhooks import delivery_work
from sealing import Keyring
from tests.deliveries.receivers import Hooks
from tests.stacks import eventually

BATCHES = delivery_dispatcher._UNSENT_BATCHES  # pyright: ignore[reportPrivateUsage]


async def batches(database: Database) -> list[dict[str, Any]]:
    """The batches, the oldest first, with how many deliveries each has."""
    async with database.connection() as connection:
        cursor = await connection.execute("select id, deliveries from delivery_batches order by id")
        return await cursor.fetchall()


@pytest.fixture
async def dispatching(
    client: Client, database: Database, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[None]:
    """A dispatcher without a worker: workflows are started, and nobody takes them up."""
    monkeypatch.setattr(delivery_dispatcher, "_UNSENT_SECONDS", 3600.0)
    async with database.connection() as connection:
        await connection.execute("truncate delivery_work, delivery_batches, endpoints")
    halt = ClaimGate(database, keyring, FailureWatch())
    dispatcher = DeliveryDispatcher(DispatchServices(database, client, halt, LoopLag(), eager=False))
    dispatcher.start()
    yield
    await dispatcher.stop()
    async with database.connection() as connection:
        await connection.execute("truncate delivery_work, delivery_batches, endpoints")


@pytest.mark.usefixtures("dispatching")
async def test_what_comes_while_many_batches_are_unsent_goes_together_once_one_is_taken_up(
    database: Database, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    find_unsent = delivery_work.find_unsent

    async def noted(connection: Connection, batch_ids: Sequence[UUID]) -> set[UUID]:
        nonlocal looks
        looks += 1
        return await find_unsent(connection, batch_ids)

    monkeypatch.setattr(delivery_work, "find_unsent", noted)
    await hooks.endpoint("http://127.0.0.1:9/")

    async def there_are(count: int) -> bool:
        return len(await batches(database)) == count

    for count in range(1, BATCHES + 1):
        await hooks.emit()
        await eventually(lambda count=count: there_are(count), 20, f"{count} batches")
    for _ in range(3):
        await hooks.emit()
        after = looks + 2
        await eventually(lambda after=after: looks >= after, 20, "the dispatcher has looked")
    async with database.connection() as connection:
        await delivery_work.take_batch(connection, (await batches(database))[0]["id"], new_id())
    await eventually(lambda: there_are(BATCHES + 1), 20, "another batch")
    assert [batch["deliveries"] for batch in await batches(database)] == [*[1] * BATCHES, 3]
