"""A database that takes no writes for a while is away: results are kept, and no call is made twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import psycopg
import pytest

from database import Database
from embedded.postgres import Postgres
from embedded.report import Report
from migrations.upgrade import upgrade
from models.runs import setbacks, shifts
from models.runs import workers as alive
from settings import Settings
from tests.api_server import running
from tests.automations.engine import (
    DEADLINE_SECONDS,
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    process,
    requested,
    until,
    webhook,
)
from tests.automations.workflows import create, post
from workflows import policies

pytestmark = pytest.mark.long

EXECUTION = "shift"
WORKFLOWS, RUNS = 4, 5
SetReadOnly = Callable[[bool], Awaitable[None]]


@pytest.fixture(scope="module")
async def postgres(scratch: Path) -> AsyncGenerator[Postgres]:
    """A server of this module's own, since all of it becomes read-only."""
    folder = scratch / "read-only"
    folder.mkdir(mode=0o711)
    server = Postgres(folder, folder / "postgres.log", Report())
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="module")
def database_url(postgres: Postgres) -> str:
    upgrade(postgres.url)
    return postgres.url


@pytest.fixture
async def set_read_only(postgres: Postgres) -> AsyncGenerator[SetReadOnly]:
    async def change(on: bool) -> None:
        async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as admin:
            await admin.execute(f"alter system set default_transaction_read_only = {'on' if on else 'off'}")
            await admin.execute("select pg_reload_conf()")
        async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as admin:
            await until(lambda: _shows(admin, "on" if on else "off"))

    yield change
    await change(False)


async def _shows(connection: psycopg.AsyncConnection, value: str) -> bool:
    row = await (await connection.execute("show default_transaction_read_only")).fetchone()
    return row == (value,)


@pytest.mark.executions("shift", "workflow")
@pytest.mark.usefixtures("nothing_waits")
async def test_calls_under_way_are_made_once_and_recorded_when_the_database_takes_writes_again(
    at_work: Work,
    open_settings: Settings,
    postgres: Postgres,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    set_read_only: SetReadOnly,
    carried_by: str,
) -> None:
    """Also by two workers, each of which could take over what the other has, or be given it by Temporal."""
    silence = shifts.SILENT_SECONDS if carried_by == "shift" else 2.5 * policies.HEARTBEAT.total_seconds()
    count = RUNS if carried_by == "shift" else 1
    steps = [webhook(f"{receiver.url}/held", "first"), webhook(f"{receiver.url}/then", "second")]
    with process(open_settings, "cli", "worker"):
        async with at_work() as notifier:
            await until(lambda: _workers(database, 2))
            targets = [await new_target(steps) for _ in range(WORKFLOWS)]
            runs = {run_id: one for one in targets for run_id in await accept(database, one, count)}
            await requested(receiver, len(runs))
            await set_read_only(True)
            receiver.open.set()
            await until(lambda: _all_are_silent(postgres, silence), silence + DEADLINE_SECONDS)
            await set_read_only(False)
            views = [await ended(database, notifier, one.account_id, run_id) for run_id, one in runs.items()]
        async with database.connection() as connection:
            assert (await alive.count_by_state(connection))["halted"] == 0
            assert await setbacks.count_aside(connection) == 0
    assert {(view.status, view.error) for view in views} == {("completed", None)}
    calls = Counter((request["path"], request["headers"]["webhook-id"]) for request in receiver.requests)
    assert len(calls) == 2 * len(runs) and set(calls.values()) == {1}


async def _workers(database: Database, count: int) -> bool:
    async with database.connection() as connection:
        return await alive.count_alive(connection) == count


async def _all_are_silent(postgres: Postgres, seconds: float) -> bool:
    """Return whether no worker has beaten for so long."""
    async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as admin:
        cursor = await admin.execute(
            "select bool_and(beat_at < clock_timestamp() - make_interval(secs => %s)) from shifts",
            (seconds,),
        )
        return await cursor.fetchone() == (True,)


async def test_an_event_is_answered_503_while_the_database_takes_no_writes(
    settings: Settings, set_read_only: SetReadOnly
) -> None:
    async with running(settings) as api:
        person = await api.person()
        url = (await create(person))["webhook_url"]
        await set_read_only(True)
        answers = [await post(api, url, json={"n": n}) for n in range(2)]
        assert {answer.status_code for answer in answers} == {503}
        assert {answer.json()["code"] for answer in answers} == {"database_unavailable"}
        assert {answer.headers["content-type"] for answer in answers} == {"application/problem+json"}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
        assert (await api.http.get("/readyz")).status_code == 503
        await set_read_only(False)

        async def accepted() -> bool:
            return (await post(api, url, json={})).status_code == 202

        await until(accepted)


async def test_a_connection_to_a_server_that_takes_no_writes_is_thrown_away(
    database_url: str, set_read_only: SetReadOnly
) -> None:
    pool = Database(database_url, name="pool", size=1)
    await pool.open()
    async with pool.connection() as connection:
        before = connection.info.backend_pid
        await set_read_only(True)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await connection.execute("create table never (n int)")
    await set_read_only(False)
    async with pool.connection() as connection:
        assert connection.info.backend_pid != before
        await connection.execute("create temporary table written (n int)")
    await pool.close()
