"""A database that answers but cannot write cannot accept anything: `/readyz` says so."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from api import write_probe
from database import Database
from tests.api_server import Api
from tests.stacks import eventually


async def readiness(api: Api) -> tuple[int, str, str]:
    answer = await api.http.get("/readyz")
    return answer.status_code, answer.json()["status"], answer.json()["checks"]["database"]


async def execute(database: Database, statement: str) -> None:
    async with database.connection() as connection:
        await connection.execute(statement)  # pyright: ignore[reportArgumentType]


async def written(database: Database) -> str:
    """Return what changes with every write of the probe: the file that its table is in."""
    async with database.connection() as connection:
        cursor = await connection.execute("select pg_relation_filenode('write_probe')::text as file")
        row = await cursor.fetchone()
    assert row is not None
    return row["file"]


@pytest.fixture
def at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_probe, "_EVERY_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("sqlstate", "said"),
    [("53100", "cannot write: its disk is full"), ("25006", "cannot write (SQLSTATE 25006)")],
    ids=["disk full", "read only"],
)
@pytest.mark.usefixtures("at_each_request")
async def test_readyz_says_what_a_refused_write_says(
    api: Api, database: Database, sqlstate: str, said: str
) -> None:
    """The error is Postgres' own; tests/embedded/test_bad_days.py has a disk that is full indeed."""
    await execute(
        database,
        "create function refuse() returns trigger language plpgsql as"
        f" $$ begin raise exception 'refused' using errcode = '{sqlstate}'; end $$",
    )
    await execute(database, "create trigger refuse before insert on write_probe execute function refuse()")
    assert await readiness(api) == (503, "unavailable", said)
    await execute(database, "drop function refuse cascade")
    assert (await readiness(api))[2] == "ok"


async def test_it_writes_at_most_once_in_a_while(api: Api, database: Database) -> None:
    await readiness(api)
    before = await written(database)
    await asyncio.gather(*(readiness(api) for _ in range(20)))
    assert await written(database) == before


@pytest.mark.usefixtures("at_each_request")
async def test_each_write_needs_new_room_on_the_disk(api: Api, database: Database) -> None:
    before = await written(database)
    await readiness(api)
    assert await written(database) != before


@pytest.mark.usefixtures("at_each_request")
async def test_a_dump_of_the_database_is_no_reason_to_be_unready(api: Api, database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("lock table write_probe in access share mode")
        assert (await readiness(api))[2] == "ok"


@pytest.mark.usefixtures("at_each_request")
async def test_a_write_that_hangs_is_told_of(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_probe, "_STUCK_SECONDS", 0.2)
    await execute(
        database,
        "create function hang() returns trigger language plpgsql as"
        " $$ begin perform pg_sleep(20); return new; end $$",
    )
    await execute(database, "create trigger hang before insert on write_probe execute function hang()")

    async def told() -> bool:
        return await readiness(api) == (503, "unavailable", "a write takes longer than 0 s")

    await eventually(told)
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as connection:
        await connection.execute(
            "select pg_cancel_backend(pid) from pg_stat_activity where query like 'insert into write_probe%'"
        )
    await execute(database, "drop function hang cascade")

    async def well() -> bool:
        return (await readiness(api))[2] == "ok"

    await eventually(well)
