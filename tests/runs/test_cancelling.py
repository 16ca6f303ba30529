"""Ending runs at once, one or all of a workflow."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from database import Database
from models.runs import cancellation
from services import run_waiter
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, requested, transform, until, webhook
from tests.runs.conftest import Follow, FollowStep
from tests.runs.workflows import adrift, create, finish, problem, start, statuses
from tests.stacks import eventually

EXECUTION = "shift"
WAIT: dict[str, Any] = {"id": "wait", "type": "delay", "config": {"days": 1}}


async def run_of(database: Database, run_id: str) -> dict[str, Any]:
    async with database.connection() as connection:
        cursor = await connection.execute("select * from runs where id = %s", (run_id,))
        row = await cursor.fetchone()
    assert row is not None
    return row


@asynccontextmanager
async def held_at_its_gate(database: Database, workflow: str) -> AsyncGenerator[None]:
    """No dispatcher claims runs of the workflow, which limits them, until the block ends."""
    async with database.transaction() as connection:
        # One that somebody else has locked is passed over.
        await connection.execute("select from gates where workflow_id = %s for update", (workflow,))
        yield


async def test_runs_end_at_once_whether_at_work_or_queued_and_those_of_others_stay(
    person: Person, database: Database
) -> None:
    at_work = await adrift(person, database)
    workflow = (await run_of(database, at_work))["automation_id"]
    queued = await start(person, str(workflow))
    other = await start(person, await create(person, [WAIT]))
    async with database.connection() as connection:
        ended, after = await cancellation.cancel_some(connection, person.account.id, workflow)
    assert ([str(run_id) for run_id in ended], after) == (sorted([at_work, queued]), None)
    for run_id in (at_work, queued):
        row = await run_of(database, run_id)
        assert row["status"] == "cancelled" and row["completed_at"]
    assert (await run_of(database, other))["status"] is None


async def test_another_accounts_runs_stay(person: Person, database: Database, api: Api) -> None:
    stranger = await api.person()
    run_id = await start(person, await create(person, [WAIT]))
    row = await run_of(database, run_id)
    async with database.connection() as connection:
        ended = await cancellation.cancel_some(connection, stranger.account.id, row["automation_id"])
    assert ended == ([], None)
    assert (await run_of(database, run_id))["status"] is None


@pytest.mark.executions("shift", "workflow")
async def test_runs_that_wait_for_long_end_at_once_and_count_what_they_cost(
    person: Person, worker: None, follow: Follow
) -> None:
    look_up = {"id": "look", "type": "phone_lookup", "config": {"value": "+14155552671"}}
    run_id = await start(person, await create(person, [look_up, WAIT, transform("last", "'x'")]))
    run = await follow(run_id, "waiting")
    await person.key.delete(f"/api/workflows/{run['workflow_id']}?cancel_runs=true")
    ended = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    assert (ended["status"], ended["credits_used"]) == ("cancelled", 1)
    assert statuses(ended) == {"look": "completed", "wait": "cancelled", "last": "skipped"}


async def test_a_cancelled_run_is_over_in_the_answer_and_for_whoever_looks_then(
    person: Person, receiver: Endpoint, worker: None, follow_step: FollowStep
) -> None:
    steps = [webhook(f"{receiver.url}/held", "held", timeout=60), transform("last", "'x'")]
    run_id = await start(person, await create(person, steps))
    await follow_step(run_id, "held", "running")
    answer = (await person.key.post(f"/api/workflows/runs/{run_id}/cancel")).json()
    run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
    for shown in (answer, run):
        assert (shown["status"], bool(shown["completed_at"])) == ("cancelled", True)
        assert statuses(shown) == {"held": "cancelled", "last": "skipped"}
        assert shown["steps"][0]["duration_ms"] is not None


async def test_a_run_that_has_ended_stays_as_it_is(person: Person, worker: None) -> None:
    run = await finish(person, await create(person, [transform("a", "'x'")]))
    assert (await person.key.post(f"/api/workflows/runs/{run['id']}/cancel")).json() == run


@pytest.mark.executions("shift", "workflow")
async def test_items_that_were_not_begun_when_their_run_was_cancelled_are_never_asked_for(
    person: Person, receiver: Endpoint, worker: None, database: Database
) -> None:
    each = webhook(receiver.url + "/held?{{ item }}", "each", timeout=60)
    each |= {"for_each": "trigger", "max_concurrency": 2}
    run_id = await start(person, await create(person, [each]), list(range(50)))
    await requested(receiver, 2)
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
    await dropped(database, run_id)
    receiver.open.set()
    # What the account runs next goes on, and shows that nothing more of the other has come meanwhile.
    await finish(person, await create(person, [webhook(f"{receiver.url}/next", "next")]))
    assert receiver.paths == ["/held", "/held", "/next"]


async def test_runs_that_hang_hold_up_nobody_once_they_are_cancelled(
    person: Person, receiver: Endpoint, worker: None
) -> None:
    workflow = await create(person, [webhook(f"{receiver.url}/held", "held", timeout=120)])
    ids = [await start(person, workflow) for _ in range(40)]
    await requested(receiver, 40)
    answers = await asyncio.gather(
        *(person.key.post(f"/api/workflows/runs/{run_id}/cancel") for run_id in ids)
    )
    assert {answer.json()["status"] for answer in answers} == {"cancelled"}
    following = await create(person, [webhook(f"{receiver.url}/next", "next")])
    async with asyncio.timeout(1):
        run = await finish(person, following)
    assert run["status"] == "completed"


async def dropped(database: Database, run_id: str) -> None:
    """Wait until no worker has anything at work since a run was cancelled."""
    cancelled_at = (await run_of(database, run_id))["completed_at"]

    async def look() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select from shifts where beats > 0 and (at_work > 0 or beat_at < %s)", (cancelled_at,)
            )
            return not cursor.rowcount

    await until(look)


async def test_however_many_runs_a_workflow_has_they_end_when_it_is_deleted_with_them(
    person: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "_AT_ONCE", 2)
    workflow, ids = await create(person, [WAIT], concurrency={"limit": 5}), []
    async with held_at_its_gate(database, workflow):
        ids = [await start(person, workflow) for _ in range(5)]
        assert (await person.key.delete(f"/api/workflows/{workflow}?cancel_runs=true")).status_code == 200
        assert [(await run_of(database, run_id))["status"] for run_id in ids] == ["cancelled"] * 5


async def test_whoever_waits_for_a_run_is_told_when_it_ends_with_its_workflow(
    api: Api, person: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_waiter, "_HEARING_SECONDS", 60)
    await asyncio.wait_for(api.services.listener.connected.wait(), 10)
    workflow = await create(person, [WAIT], concurrency={"limit": 5})
    async with held_at_its_gate(database, workflow):
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
    assert (await run_of(database, run_id))["status"] is None
    assert (await person.key.delete(path, headers={"If-Match": "nonsense"})).status_code == 400
    assert (await person.key.delete(path, headers={"If-Match": '"v2"'})).status_code == 200
