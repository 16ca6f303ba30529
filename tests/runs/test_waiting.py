"""`?wait`: woken by a notification, and never the reason to do accepted work twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import psycopg
import pytest

from database import Connection, Database
from embedded.postgres import Postgres
from models.runs.runs import FINISHED_CHANNEL
from notifications import Listener, Notifier
from services import run_waiter
from services.run_waiter import RunWaiter
from tests.api_server import Api, Person
from tests.runs.workflows import create, start
from tests.stacks import eventually


class Counted(Database):
    """A database that counts how often it is asked."""

    asked = 0

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        self.asked += 1
        async with super().connection() as connection:
            yield connection


@pytest.fixture
async def counted(database_url: str) -> AsyncGenerator[Counted]:
    opened = Counted(database_url, name="counted")
    await opened.open()
    yield opened
    await opened.close()


@asynccontextmanager
async def hearing(database: Database, waiter: RunWaiter) -> AsyncGenerator[None]:
    """With a listener and a sender of notifications."""
    listener, notifier = Listener(database), Notifier(database)
    listener.add({FINISHED_CHANNEL: waiter.wake_finished})
    waiter.listen_with(listener)
    listener.start()
    await asyncio.wait_for(listener.connected.wait(), 10)
    yield
    await listener.stop()
    await notifier.stop()


async def test_the_database_is_asked_again_and_again_only_while_nothing_is_heard(
    person: Person, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_waiter, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(run_waiter, "_HEARING_SECONDS", 60)
    run_id, waiter = UUID(await start(person, await create(person))), RunWaiter(counted)
    assert not await waiter.wait(run_id, 0.5)
    assert counted.asked > 2
    counted.asked = 0
    async with hearing(counted, waiter):
        assert not await waiter.wait(run_id, 0.5)
    assert counted.asked in (1, 2), "at the beginning; a look of before may have been under way"


async def test_whoever_waits_is_woken_by_the_end_of_the_run(
    person: Person, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_waiter, "_HEARING_SECONDS", 60)
    run_id, waiter = await start(person, await create(person)), RunWaiter(counted)
    async with hearing(counted, waiter):
        wait = asyncio.create_task(waiter.wait(UUID(run_id), 60))
        await eventually(lambda: counted.asked == 1, what="it waits")
        await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
        assert await asyncio.wait_for(wait, 20)
    assert counted.asked == 2


async def test_however_many_wait_for_a_run_it_is_looked_at_once(
    person: Person, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_waiter, "_HEARING_SECONDS", 60)
    run_id, waiter = await start(person, await create(person)), RunWaiter(counted)
    async with hearing(counted, waiter):
        waits = [asyncio.create_task(waiter.wait(UUID(run_id), 60)) for _ in range(50)]
        await eventually(lambda: counted.asked == 1, what="they wait")
        await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
        ended = await asyncio.wait_for(asyncio.gather(*waits), 20)
    assert [run.status for run in ended if run] == ["cancelled"] * 50
    assert counted.asked == 2


async def test_a_new_run_is_looked_at_once_its_end_is_heard(person: Person, counted: Counted) -> None:
    run_id, waiter = await start(person, await create(person)), RunWaiter(counted)
    async with hearing(counted, waiter):
        wait = asyncio.create_task(waiter.wait(UUID(run_id), 60, new=True))
        await eventually(lambda: bool(waiter._waiting), what="it waits")  # pyright: ignore[reportPrivateUsage]
        await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
        assert await asyncio.wait_for(wait, 20)
    assert counted.asked == 1


async def test_a_new_run_whose_end_was_heard_before_somebody_waited_is_looked_at_at_once(
    person: Person, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_waiter, "_HEARING_SECONDS", 60)
    run_id, waiter = await start(person, await create(person)), RunWaiter(counted)
    async with hearing(counted, waiter):
        await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
        await eventually(lambda: run_id in waiter._heard, what="its end is heard")  # pyright: ignore[reportPrivateUsage]
        assert await asyncio.wait_for(waiter.wait(UUID(run_id), 60, new=True), 20)


@pytest.mark.long
async def test_a_run_by_hand_is_accepted_though_the_database_goes_away_while_it_is_waited_for(
    api: Api, person: Person, postgres: Postgres, database: Database
) -> None:
    pool = api.services.database._pool  # pyright: ignore[reportPrivateUsage]
    patience, pool.timeout = pool.timeout, 0.5
    path, key = f"/api/workflows/{await create(person)}/run", {"Idempotency-Key": "one"}
    name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
    first = asyncio.create_task(person.key.post(f"{path}?wait=3", json={}, headers=key))
    await eventually(lambda: bool(api.services.waiter._waiting), what="somebody waits")  # pyright: ignore[reportPrivateUsage]
    async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as admin:
        await admin.execute(f"alter database {name} with allow_connections false")  # pyright: ignore[reportArgumentType]
        try:
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
            )
            accepted = await first
        finally:
            await admin.execute(f"alter database {name} with allow_connections true")  # pyright: ignore[reportArgumentType]
            pool.timeout = patience
    assert accepted.status_code == 202

    await eventually(lambda: is_back(database), 20, "the database is back")
    # The answer could not be kept: for a minute the first request would count as being at work.
    async with database.connection() as connection:
        await connection.execute("update idempotency_keys set leased_until = now() where key = 'one'")
    again = await person.key.post(f"{path}?wait=3", json={}, headers=key)
    assert again.json()["run_id"] == accepted.json()["run_id"]


async def is_back(database: Database) -> bool:
    try:
        async with database.connection() as connection:
            await connection.execute("select 1")
    except psycopg.Error:
        return False
    return True
