"""Ending all runs of a workflow at once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from api import waiting
from database import Database
from models import cancelling
from models.cancelling import Cancelled
from tests.api_server import Api, Person
from tests.automations.engine import transform
from tests.runs.conftest import Follow
from tests.runs.workflows import adrift, create, problem, start, statuses
from tests.stacks import eventually

WAIT: dict[str, Any] = {"id": "wait", "type": "delay", "config": {"days": 1}}


async def run_of(database: Database, run_id: str) -> dict[str, Any]:
    async with database.connection() as connection:
        cursor = await connection.execute("select * from runs where id = %s", (run_id,))
        row = await cursor.fetchone()
    assert row is not None
    return row


@asynccontextmanager
async def held_in_its_lanes(database: Database, workflow: str) -> AsyncGenerator[None]:
    """No dispatcher claims runs of the workflow until the block ends: their lanes are locked."""
    async with database.transaction() as connection:
        await connection.execute("select from lanes where automation_id = %s for no key update", (workflow,))
        yield


async def test_runs_at_work_are_to_be_told_by_batch_and_queued_ones_end_at_once(
    person: Person, database: Database
) -> None:
    at_work = await adrift(person, database)
    row = await run_of(database, at_work)
    queued = await start(person, str(row["automation_id"]))
    others = await start(person, await create(person, [WAIT]))
    async with database.transaction() as connection:
        cancelled = await cancelling.cancel_some(connection, person.account.id, row["automation_id"])
    told = {str(batch): [str(id) for id in ids] for batch, ids in cancelled.at_work.items()}
    assert (told, [str(id) for id in cancelled.ended]) == ({at_work: [at_work]}, [queued])
    row = await run_of(database, at_work)
    assert (row["status"], row["completed_at"]) == ("running", None) and row["cancel_requested_at"]
    row = await run_of(database, queued)
    assert row["status"] == "cancelled" and row["completed_at"]
    assert (await run_of(database, others))["cancel_requested_at"] is None


async def test_another_accounts_runs_stay(person: Person, database: Database, api: Api) -> None:
    stranger = await api.person()
    run_id = await start(person, await create(person, [WAIT]))
    row = await run_of(database, run_id)
    async with database.transaction() as connection:
        cancelled = await cancelling.cancel_some(connection, stranger.account.id, row["automation_id"])
    assert cancelled == Cancelled([], {}, None)
    assert (await run_of(database, run_id))["cancel_requested_at"] is None


async def test_runs_that_wait_for_long_end_at_once_and_count_what_they_cost(
    person: Person, database: Database, worker: None, follow: Follow
) -> None:
    look_up = {"id": "look", "type": "phone_lookup", "config": {"value": "+14155552671"}}
    run_id = await start(person, await create(person, [look_up, WAIT, transform("last", "'x'")]))
    run = await follow(run_id, "waiting")
    async with database.transaction() as connection:
        cancelled = await cancelling.cancel_some(connection, person.account.id, run["workflow_id"])
    assert cancelled == Cancelled([UUID(run_id)], {}, None)
    ended = await follow(run_id)
    assert (ended["status"], ended["credits_used"]) == ("cancelled", 1)
    assert statuses(ended) == {"look": "completed", "wait": "cancelled", "last": "skipped"}


async def test_however_many_runs_a_workflow_has_they_end_when_it_is_deleted_with_them(
    person: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "_AT_ONCE", 2)
    workflow, ids = await create(person, [WAIT]), []
    async with held_in_its_lanes(database, workflow):
        ids = [await start(person, workflow) for _ in range(5)]
        assert (await person.key.delete(f"/api/workflows/{workflow}?cancel_runs=true")).status_code == 200
        assert [(await run_of(database, run_id))["status"] for run_id in ids] == ["cancelled"] * 5


async def test_whoever_waits_for_a_run_is_told_when_it_ends_with_its_workflow(
    api: Api, person: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_HEARING_SECONDS", 60)
    await asyncio.wait_for(api.services.listener.connected.wait(), 10)
    workflow = await create(person, [WAIT])
    async with held_in_its_lanes(database, workflow):
        run = asyncio.create_task(person.key.post(f"/api/workflows/{workflow}/run?wait=20", json={}))
        await eventually(lambda: bool(api.services.waiter._waiting), what="somebody waits")  # pyright: ignore[reportPrivateUsage]
        await person.key.delete(f"/api/workflows/{workflow}?cancel_runs=true")
        answer = await run
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


async def test_a_workflow_that_has_changed_is_not_deleted_and_its_runs_go_on(
    person: Person, database: Database
) -> None:
    workflow = await create(person, [WAIT])
    path, late = f"/api/workflows/{workflow}", {"If-Match": '"v1"'}
    await person.key.patch(path, json={"name": "changed"})
    run_id = await start(person, workflow)
    for query in ("", "?cancel_runs=true"):
        assert problem(await person.key.delete(path + query, headers=late)) == (412, "version_mismatch")
    assert (await person.key.get(path)).json()["version"] == 2
    assert (await run_of(database, run_id))["cancel_requested_at"] is None
    assert (await person.key.delete(path, headers={"If-Match": "nonsense"})).status_code == 400
    assert (await person.key.delete(path, headers={"If-Match": '"v2"'})).status_code == 200
