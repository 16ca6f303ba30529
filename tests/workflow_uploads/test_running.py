"""Batches whose runs are done: by workers, also by those that die, and over connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from uuid import uuid4

import pytest
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.conftest import client, open_settings
from tests.automations.engine import Endpoint, hasty_worker, requested, transform, until, webhook, working
from tests.runs.workflows import problem
from tests.workflow_uploads.files import accepted, batch, ended, file_workflow, upload

__all__ = ["client", "open_settings"]


@pytest.fixture(scope="module")
async def api(open_settings: Settings) -> AsyncGenerator[Api]:
    async with running(open_settings, limit_bulk=None) as served:
        yield served


async def test_expressions_read_the_columns_of_the_row(
    person: Person,
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
) -> None:
    step = transform("a", "join(' ', [trigger.\"first name\", not_null(trigger.note, 'nothing')])")
    workflow = await file_workflow(person, [step])
    path = await accepted(person, workflow, "first name,note\nAda,hello\nBob,\n")
    async with working(open_settings, client, database, keyring):
        shown = await ended(person, path)
    assert (shown["status"], shown["runs_completed"]) == ("completed", 2)
    page = await person.key.get("/api/workflows/runs", params={"workflow_id": workflow})
    runs = [(await person.key.get(f"/api/workflows/runs/{run['id']}")).json() for run in page.json()["runs"]]
    assert [run["output"] for run in runs] == ["Bob nothing", "Ada hello"]


@pytest.mark.long
async def test_all_rows_run_once_although_a_worker_dies_in_the_middle(
    person: Person,
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    receiver: Endpoint,
    short_periods: None,
) -> None:
    held = webhook(f"{receiver.url}/held", "held")
    steps = [webhook(receiver.url + "/{{ trigger.n }}", "first"), held, transform("end", "trigger.n")]
    workflow = await file_workflow(person, steps)
    path = await accepted(person, workflow, "\n".join(["n", *map(str, range(40))]))
    with hasty_worker(open_settings) as killed:
        await requested(receiver, 60)
        killed.kill()
    receiver.open.set()
    assert (await batch(person, path))["status"] == "running"
    async with working(open_settings, client, database, keyring):
        shown = await ended(person, path)
    assert (shown["status"], shown["runs_completed"], shown["runs_total"]) == ("completed", 40, 40)
    calls = [(request["path"], request["headers"]["webhook-id"]) for request in receiver.requests]
    assert len({call for call in calls if call[0] != "/held"}) == 40, "a repeat has the id of the first"


async def test_a_connection_that_breaks_before_the_commit_leaves_nothing_and_a_repeat_is_accepted(
    person: Person, database: Database
) -> None:
    workflow, key = await file_workflow(person), str(uuid4())
    table = "a\n" + "1\n" * 700

    async def blocked() -> list[int]:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select pid from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database() and query like 'insert into uploads%'"
            )
            return [row["pid"] for row in await cursor.fetchall()]

    async with database.transaction() as connection:
        await connection.execute("lock table uploads in share mode")
        sending = asyncio.create_task(upload(person, workflow, table, idempotency_key=key))
        [pid] = await until(blocked)
        await connection.execute("select pg_terminate_backend(%s)", (pid,))
        answer = await sending
    assert problem(answer) == (503, "database_unavailable")
    page = await person.key.get("/api/workflows/runs", params={"workflow_id": workflow})
    assert page.json()["total"] == 0
    again = await upload(person, workflow, table, idempotency_key=key)
    assert (again.status_code, again.json()["runs_total"]) == (202, 700)
    page = await person.key.get("/api/workflows/runs", params={"workflow_id": workflow})
    assert page.json()["total"] == 700
