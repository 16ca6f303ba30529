"""One connection of a process receives the notifications for all of its parts."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from database import Database
from tests.stacks import eventually


@pytest.fixture
async def heard(database_url: str) -> AsyncGenerator[Database]:
    opened = Database(database_url, name="hears")
    await opened.open()
    yield opened
    await opened.close()


async def notify(database: Database, channel: str, payload: str) -> None:
    async with database.connection() as connection:
        await connection.execute("select pg_notify(%s, %s)", (channel, payload))


async def count_listening(database: Database) -> int:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) as n from pg_stat_activity"
            " where datname = current_database() and application_name = 'hears' and query ilike 'listen %%'"
        )
        row = await cursor.fetchone()
    assert row is not None
    return row["n"]


async def test_each_part_hears_its_channels_by_the_same_connection(heard: Database) -> None:
    first: list[str] = []
    second: list[str] = []
    heard.listener.add({"a": first.append})
    heard.listener.start()
    await heard.listener.connected.wait()
    heard.listener.add({"a": second.append, "b": second.append})

    async def hears_all() -> bool:
        await notify(heard, "a", "x")
        await notify(heard, "b", "y")
        return "x" in first and {"x", "y"} <= {*second}

    await eventually(hears_all, what="both parts hear")
    assert await count_listening(heard) == 1


async def test_a_part_that_has_stopped_hears_nothing_more(heard: Database) -> None:
    stopped: list[str] = []
    going: list[str] = []
    gone = {"a": stopped.append}
    heard.listener.add(gone)
    heard.listener.add({"a": going.append})
    heard.listener.start()
    heard.listener.remove(gone)
    heard.listener.remove(gone)

    async def hears() -> bool:
        await notify(heard, "a", "x")
        return bool(going)

    await eventually(hears, what="the other part hears")
    assert stopped == []


async def test_sessions_have_their_parameters_without_those_of_the_connection(database_url: str) -> None:
    # PgBouncer takes none with a new connection.
    database = Database(database_url, name="tests", parameters={"lock_timeout": "1s"})
    async with await database.connect_dedicated(parameters={"synchronous_commit": "off"}) as connection:
        cursor = await connection.execute(
            "select name, setting, source from pg_settings"
            " where name in ('statement_timeout', 'synchronous_commit', 'TimeZone')"
        )
        found = {row["name"]: (row["setting"], row["source"]) for row in await cursor.fetchall()}
    assert found == {
        "statement_timeout": ("30000", "session"),
        "synchronous_commit": ("off", "session"),
        "TimeZone": ("UTC", "session"),
    }


async def test_a_handler_that_fails_stops_no_other(heard: Database) -> None:
    """Whoever may connect to the database may notify with anything."""
    told: list[str] = []
    heard.listener.add({"a": lambda payload: print(int(payload))})
    heard.listener.add({"a": told.append})
    heard.listener.start()
    await heard.listener.connected.wait()
    for payload in ("no number", "1"):
        await notify(heard, "a", payload)
    await eventually(lambda: told == ["no number", "1"])
