"""Runs that others begin: as their steps, and when they have failed."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from database import Database
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, requested, transform, until, webhook
from tests.automations.families import JSONObject, begin, ended, finish, running_step, runs_of
from tests.automations.workflows import create, wrong
from tests.health.scraping import grown, scraped


@pytest.mark.executions("shift", "workflow", "turns")
async def test_a_step_runs_another_workflow_and_takes_its_output(person: Person, worker: None) -> None:
    child = await create(person, steps=[transform("double", "[trigger.n, trigger.n]")])
    parent = await create(person, steps=[running_step(child["id"]), transform("after", "child[0]")])
    view = await finish(person, parent, {"n": 7})
    assert (view["status"], view["output"]) == ("completed", 7)
    [run] = await runs_of(person, child)
    assert (run["parent_run_id"], run["trigger"]) == (view["id"], "workflow")
    assert view["steps"][0]["input"] == {"workflow_id": child["id"], "run_id": run["id"]}


@pytest.mark.executions("shift", "workflow", "turns")
async def test_each_item_has_a_run_of_its_own_and_their_outputs_keep_their_order(
    person: Person, worker: None
) -> None:
    child = await create(person, steps=[transform("out", "trigger")])
    each = running_step(child["id"], for_each="trigger", input="{{ item }}", max_concurrency=3)
    parent = await create(person, steps=[each, transform("after", "child[-1]")])
    view = await finish(person, parent, list(range(20)))
    assert (view["steps"][0]["output"], view["output"]) == (list(range(20)), 19)
    assert view["steps"][0]["input"] == list(range(20))
    assert len(await runs_of(person, child)) == 20


@pytest.mark.executions("shift", "workflow", "turns")
async def test_a_parent_that_waits_for_its_child_leaves_its_executor(
    api: Api, person: Person, worker: None, database: Database
) -> None:
    child = await create(person, steps=[{"id": "approval", "type": "wait"}])
    parent = await create(person, steps=[running_step(child["id"]), transform("after", "child.body")])
    run_id = await begin(person, parent)

    async def parked() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select from run_work where status = 'waiting'"
                " and (run_id = %(id)s or parent_run_id = %(id)s)",
                {"id": run_id},
            )
            return len(await cursor.fetchall()) == 2

    await until(parked)
    [below] = await runs_of(person, child)
    shown = (await person.key.get(f"/api/workflows/runs/{below['id']}")).json()
    url = shown["resume_urls"]["approval"]
    await api.http.post("/api/" + url.partition("/api/")[2], json="go")
    assert (await ended(person, run_id))["output"] == "go"


FAILING = transform("bad", "max(trigger)")


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize(
    ("on_error", "status", "output"),
    [("fail", "failed", None), ("continue", "completed", "child_failed")],
)
async def test_a_child_that_fails_fails_the_step(
    person: Person, worker: None, on_error: str, status: str, output: Any
) -> None:
    child = await create(person, steps=[FAILING])
    steps = [running_step(child["id"], on_error=on_error), transform("after", "steps.child.error.code")]
    view = await finish(person, await create(person, steps=steps), "x")
    assert (view["status"], view["output"]) == (status, output)
    error = view["steps"][0]["error"]
    [run] = await runs_of(person, child)
    assert error["code"] == "child_failed"
    told = f"The run {run['id']} of the workflow {child['name']} failed"
    assert error["message"] == f"{told} with {run['error']['code']}: {run['error']['message']}"


@pytest.mark.executions("shift", "workflow")
async def test_to_cancel_a_run_cancels_its_children_and_theirs(
    person: Person, worker: None, receiver: Endpoint
) -> None:
    grandchild = await create(person, steps=[webhook(f"{receiver.url}/held")])
    child = await create(person, steps=[running_step(grandchild["id"])])
    run_id = await begin(person, await create(person, steps=[running_step(child["id"])]))
    await requested(receiver, 1)
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
    for workflow in (child, grandchild):
        [run] = await runs_of(person, workflow)
        assert run["status"] == "cancelled"
    receiver.open.set()


@pytest.mark.executions("shift", "workflow")
async def test_a_child_that_is_cancelled_fails_the_step_of_its_parent(
    person: Person, worker: None, receiver: Endpoint
) -> None:
    child = await create(person, steps=[webhook(f"{receiver.url}/held")])
    run_id = await begin(person, await create(person, steps=[running_step(child["id"])]))
    await requested(receiver, 1)
    [below] = await runs_of(person, child)
    await person.key.post(f"/api/workflows/runs/{below['id']}/cancel")
    view = await ended(person, run_id)
    assert view["error"]["code"] == "child_failed" and "cancelled" in view["error"]["message"]
    receiver.open.set()


@pytest.mark.executions("shift", "workflow")
async def test_a_run_that_fails_beside_its_child_cancels_it(
    api: Api, person: Person, worker: None, receiver: Endpoint
) -> None:
    before = await scraped(api)
    child = await create(person, steps=[{"id": "approval", "type": "wait"}])
    failing = {**webhook(f"{receiver.url}/fail"), "needs": [], "retry": {"max_attempts": 1}}
    parent = await create(person, steps=[running_step(child["id"]), failing])
    receiver.answer = lambda _: web.json_response({}, status=400)
    assert (await finish(person, parent))["status"] == "failed"
    [below] = await runs_of(person, child)
    assert (await ended(person, below["id"]))["status"] == "cancelled"
    assert grown(before, await scraped(api), 'vedette_run_ends_total{error="",status="cancelled"}') == 1


GONE = {"deleted": "workflow_not_found", "paused": "workflow_not_active", "refuses": "invalid_input"}


@pytest.mark.parametrize("how", GONE)
async def test_a_workflow_that_cannot_be_run_fails_the_step(person: Person, worker: None, how: str) -> None:
    child = await create(person, input_schema={"type": "object"} if how == "refuses" else None)
    parent = await create(person, steps=[running_step(child["id"])])
    if how == "deleted":
        await person.key.delete(f"/api/workflows/{child['id']}")
    elif how == "paused":
        await person.key.patch(f"/api/workflows/{child['id']}", json={"status": "paused"})
    view = await finish(person, parent, "no object")
    assert (view["status"], view["error"]["code"]) == ("failed", GONE[how])


async def test_workflows_run_each_other_five_deep(person: Person, worker: None) -> None:
    workflow = await create(person, steps=[transform("out", "'deep'")])
    for _ in range(5):
        workflow = await create(person, steps=[running_step(workflow["id"])])
    assert (await finish(person, workflow))["output"] == "deep"
    answer = await person.key.post(
        "/api/workflows", json={"name": "x", "steps": [running_step(workflow["id"])]}
    )
    assert wrong(answer) == {("/steps/0/config/workflow_id", "workflow_too_deep")}


async def test_a_chain_that_grew_from_below_ends_where_it_is_too_deep(person: Person, worker: None) -> None:
    """Each of the two changes is fine by itself."""
    lowest = await create(person, steps=[])
    workflow = lowest
    for _ in range(5):
        workflow = await create(person, steps=[running_step(workflow["id"])])
    other = await create(person, steps=[])
    changed = await person.key.patch(
        f"/api/workflows/{lowest['id']}", json={"steps": [running_step(other["id"])]}
    )
    assert changed.status_code == 200
    view = await finish(person, workflow)
    assert view["error"]["code"] == "child_failed" and "five deep" in view["error"]["message"]


async def test_a_workflow_that_would_run_itself_is_refused_at_save(person: Person) -> None:
    first = await create(person, steps=[])
    second = await create(person, steps=[running_step(first["id"])])
    for step in (running_step(second["id"]), running_step(first["id"])):
        answer = await person.key.patch(f"/api/workflows/{first['id']}", json={"steps": [step]})
        assert wrong(answer) == {("/steps/0/config/workflow_id", "workflow_cycle")}


async def test_only_workflows_of_the_account_can_be_named(api: Api, person: Person) -> None:
    others = await create(await api.person(), steps=[])
    document = {
        "name": "x",
        "steps": [running_step(others["id"])],
        "on_failure": {"workflow_id": str(uuid4())},
    }
    answer = await person.key.post("/api/workflows", json=document)
    assert wrong(answer) == {
        ("/steps/0/config/workflow_id", "unknown_workflow"), ("/on_failure/workflow_id", "unknown_workflow"),
    }  # fmt: skip


@pytest.mark.executions("shift", "workflow")
async def test_another_workflow_runs_once_for_each_run_that_has_failed(person: Person, worker: None) -> None:
    handler = await create(person, steps=[transform("out", "[trigger.error.code, trigger.input]")])
    failing = await create(person, steps=[FAILING], on_failure={"workflow_id": handler["id"]})
    failed = await finish(person, failing, "x")

    async def handled() -> list[JSONObject]:
        return [run for run in await runs_of(person, handler) if run["completed_at"]]

    [run] = await until(handled)
    assert (run["trigger"], run["parent_run_id"]) == ("on_failure", failed["id"])
    whole = await ended(person, run["id"])
    assert whole["output"] == ["wrong_type", "x"] and whole["input"]["error"] == failed["error"]
    about = whole["input"]["run"]
    assert (about["id"], about["workflow_id"], about["status"]) == (failed["id"], failing["id"], "failed")
    assert about["duration_ms"] == failed["duration_ms"]


async def test_what_fails_after_a_failure_starts_nothing(person: Person, worker: None) -> None:
    handler = await create(person, steps=[FAILING])
    await person.key.patch(
        f"/api/workflows/{handler['id']}", json={"on_failure": {"workflow_id": handler["id"]}}
    )
    failing = await create(person, steps=[FAILING], on_failure={"workflow_id": handler["id"]})
    await finish(person, failing, "x")

    async def handled() -> list[JSONObject]:
        return [run for run in await runs_of(person, handler) if run["status"] == "failed"]

    await until(handled)
    marker = await finish(person, await create(person, steps=[transform("t", "1")]))
    assert marker["status"] == "completed" and len(await runs_of(person, handler)) == 1


async def test_a_run_that_was_cancelled_or_whose_handler_is_paused_starts_nothing(
    person: Person, worker: None
) -> None:
    handler = await create(person, steps=[])
    steps = [{"id": "approval", "type": "wait", "if": "trigger == 'wait'"}, FAILING]
    workflow = await create(person, steps=steps, on_failure={"workflow_id": handler["id"]})
    run_id = await begin(person, workflow, "wait")
    await person.key.post(f"/api/workflows/runs/{run_id}/cancel")
    await person.key.patch(f"/api/workflows/{handler['id']}", json={"status": "paused"})
    assert (await finish(person, workflow, "x"))["status"] == "failed"
    assert await runs_of(person, handler) == []


async def test_a_run_that_follows_a_failure_waits_where_events_are_skipped(
    person: Person, worker: None
) -> None:
    waiting = {"id": "answer", "type": "wait"}
    handler = await create(person, steps=[waiting], concurrency={"limit": 1, "on_limit": "skip"})
    failing = await create(person, steps=[FAILING], on_failure={"workflow_id": handler["id"]})
    for _ in range(2):
        await finish(person, failing, "x")

    async def begun() -> list[str]:
        statuses = sorted(run["status"] for run in await runs_of(person, handler))
        return statuses if "waiting" in statuses else []

    assert await until(begun) == ["queued", "waiting"]


async def test_two_workflows_that_are_changed_at_once_do_not_come_to_run_each_other(person: Person) -> None:
    for _ in range(4):
        pair = [await create(person, steps=[]) for _ in range(2)]
        answers = await asyncio.gather(
            *(
                person.key.patch(f"/api/workflows/{one['id']}", json={"steps": [running_step(other["id"])]})
                for one, other in (pair, pair[::-1])
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 400]
