"""What attempts brought is written under the fence of their batch, and counts once."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from models.identifiers import new_id
from models.webhooks import delivery_work
from models.webhooks.delivery_work import Delivery
from models.webhooks.delivery_writes import Attempt, Change, record_attempts_if_leased
from tests.deliveries.receivers import Hooks

NOWHERE = "http://127.0.0.1:9/"


def change(delivery: Delivery, batch: UUID, executor: UUID, status: int) -> Change:
    code = None if status == 200 else "http_status"
    attempt = Attempt(False, datetime.now(UTC), 1, status, None, code, "-")
    ending = "delivered" if status == 200 else "failed"
    asks = {"pause": 60.0 if status == 429 else 0.0, "gone": status == 410}
    return Change(batch, executor, delivery.delivery_id, attempt, ending, **asks)


async def test_of_two_who_have_a_batch_only_the_later_one_writes_even_in_the_same_statement(
    hooks: Hooks,
) -> None:
    await hooks.endpoint(NOWHERE)
    await hooks.emit()
    batch, overtaken, holder = new_id(), new_id(), new_id()
    async with hooks.database.connection() as connection:
        await delivery_work.claim(connection, batch, window=1024)
        [delivery] = await delivery_work.take_batch(connection, batch, overtaken)
        assert await delivery_work.take_batch(connection, batch, holder) == [delivery]
    changes = [change(delivery, batch, overtaken, 500), change(delivery, batch, holder, 200)]
    async with hooks.database.transaction() as connection:
        assert await record_attempts_if_leased(connection, changes) == {delivery.delivery_id}
    assert [one["response_status"] for one in await hooks.attempts()] == [200]
    assert [row["status"] for row in await hooks.rows()] == ["delivered"]


@pytest.mark.parametrize(("status", "active", "paused"), [(410, False, False), (429, True, True)])
async def test_what_a_receiver_asks_for_counts_though_it_takes_another_delivery_at_the_same_moment(
    hooks: Hooks, status: int, active: bool, paused: bool
) -> None:
    endpoint_id = await hooks.endpoint(NOWHERE)
    await hooks.emit(2)
    batch, executor = new_id(), new_id()
    async with hooks.database.connection() as connection:
        await delivery_work.claim(connection, batch, window=1024)
        first, second = await delivery_work.take_batch(connection, batch, executor)
    changes = [change(first, batch, executor, 200), change(second, batch, executor, status)]
    async with hooks.database.transaction() as connection:
        await record_attempts_if_leased(connection, changes)
    row = await hooks.endpoint_row(endpoint_id)
    assert (row["is_active"], row["paused_until"] is not None) == (active, paused)
