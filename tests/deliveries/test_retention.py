"""Events and deliveries that are too old are dropped, week by week; what is still on its way stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from models.runs import history
from models.webhooks import endpoints
from tests.deliveries.receivers import Hooks
from tests.weeks import id_of, make_week, partitions

TABLES = ("events", "deliveries", "delivery_attempts")
KEPT = timedelta(days=90)
LONG_AGO = datetime.now(UTC) - timedelta(days=200)
# As if they had been made then.
AGE = (
    "update delivery_work set delivery_id = %(id)s where account_id = %(account)s",
    "update events set id = %(id)s where account_id = %(account)s",
    "update deliveries set id = %(id)s, event_id = %(id)s where account_id = %(account)s",
)


@pytest.mark.parametrize(
    ("state", "dropped"),
    [("ended", True), ("waits", False), ("endpoint off", True), ("endpoint gone with its account", True)],
)
async def test_a_week_goes_once_nothing_of_it_is_on_its_way(hooks: Hooks, state: str, dropped: bool) -> None:
    endpoint_id = await hooks.endpoint("http://127.0.0.1:9/")
    await hooks.emit()
    async with hooks.database.connection() as connection:
        suffix = await make_week(connection, TABLES, LONG_AGO)
        for statement in AGE:
            await connection.execute(statement, {"id": id_of(LONG_AGO), "account": hooks.account_id})
        match state:
            case "ended":
                await connection.execute(
                    "delete from delivery_work where account_id = %s", (hooks.account_id,)
                )
            case "endpoint off":
                await endpoints.disable(connection, endpoint_id, "gone")
            case "endpoint gone with its account":
                await connection.execute("delete from endpoints where id = %s", (endpoint_id,))
            case _:
                pass
        assert await history.drop_old(connection, KEPT) == int(dropped)
        assert await partitions(connection, TABLES, suffix) == (0 if dropped else 3)
        await connection.execute("delete from delivery_work where account_id = %s", (hooks.account_id,))
        await history.drop_old(connection, KEPT)


async def age(hooks: Hooks, event: datetime, delivery: datetime) -> None:
    """Have the account's only event, and the deliveries of it, be of these moments."""
    rows = await hooks.rows()
    async with hooks.database.transaction() as connection:
        for moment in (event, delivery):
            await make_week(connection, TABLES, moment)
        for number, row in enumerate(rows):
            ids = {"old_event": id_of(event), "old": id_of(delivery, number), "id": row["id"]}
            for statement in (
                "update deliveries set id = %(old)s, event_id = %(old_event)s where id = %(id)s",
                "update delivery_work set delivery_id = %(old)s, event_id = %(old_event)s"
                " where delivery_id = %(id)s",
            ):
                await connection.execute(statement, ids)
        await connection.execute(
            "update events set id = %s where id = %s", (id_of(event), rows[0]["event_id"])
        )


async def test_an_event_stays_for_a_delivery_of_the_week_after_it(hooks: Hooks) -> None:
    """It was written in the last moment of its week, the delivery in the first of the next."""
    await hooks.endpoint("http://127.0.0.1:9/")
    await hooks.emit()
    await age(hooks, LONG_AGO, LONG_AGO + timedelta(days=7))
    async with hooks.database.connection() as connection:
        assert await history.drop_old(connection, KEPT) == 0
        await connection.execute("delete from delivery_work where account_id = %s", (hooks.account_id,))
        assert await history.drop_old(connection, KEPT) == 2


async def test_what_waits_for_an_endpoint_that_is_off_can_go_out_while_its_week_stays(hooks: Hooks) -> None:
    off, on = [await hooks.endpoint("http://127.0.0.1:9/") for _ in range(2)]
    await hooks.emit()
    await age(hooks, LONG_AGO, LONG_AGO)
    async with hooks.database.connection() as connection:
        await endpoints.disable(connection, off, "gone")
        assert await history.drop_old(connection, KEPT) == 0
        cursor = await connection.execute(
            "select endpoint_id from delivery_work where account_id = %s", (hooks.account_id,)
        )
        assert {row["endpoint_id"] for row in await cursor.fetchall()} == {off, on}
        await connection.execute("delete from delivery_work where account_id = %s", (hooks.account_id,))
        assert await history.drop_old(connection, KEPT) == 1
