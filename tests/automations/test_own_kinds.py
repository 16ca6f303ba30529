"""Workflows whose runs are all to have workflows of their own: families, approvals, retries, failures."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.client import Client

from database import Database
from notifications import Notifier
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, run_workflow, transform, until, webhook
from tests.automations.own_runs import called, performers
from tests.automations.workflows import create, post

pytestmark = pytest.mark.long

OWN = {"execution": "workflow"}
JSONObject = dict[str, Any]


async def begin(person: Person, workflow: JSONObject, given: Any = None) -> str:
    answer = await person.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": given})
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


async def become(person: Person, run_id: str, *statuses: str) -> JSONObject:
    async def look() -> JSONObject | None:
        view = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
        return view if view["status"] in statuses else None

    return await until(look)


async def runs_of(person: Person, workflow: JSONObject) -> list[JSONObject]:
    found = await person.key.get("/api/workflows/runs", params={"workflow_id": workflow["id"], "limit": 100})
    return found.json()["runs"]


async def by_workflow(client: Client, database: Database, run_id: str, result: str = "completed") -> None:
    """The run was its own workflow's from its beginning to its end."""
    assert await (await run_workflow(client, UUID(run_id))).result() == result
    assert set((await performers(database, UUID(run_id))).values()) == {"activity"}


# Above twenty, many are begun in one activity.
@pytest.mark.parametrize("size", [12, 60])
async def test_a_family_of_runs(
    person: Person, notifier: Notifier, client: Client, database: Database, size: int
) -> None:
    child = await create(person, steps=[transform("out", "[trigger]")], **OWN)
    each = {
        "id": "child", "type": "workflow", "config": {"workflow_id": child["id"], "input": "{{ item }}"},
        "for_each": "trigger",
    }  # fmt: skip
    parent = await create(person, steps=[each, transform("after", "child[-1]")], **OWN)
    run_id = await begin(person, parent, list(range(size)))
    view = await become(person, run_id, "completed", "failed")
    assert (view["status"], view["output"]) == ("completed", [size - 1])
    children = await runs_of(person, child)
    assert len(children) == size
    for one in [view, *children]:
        await by_workflow(client, database, one["id"])


async def test_an_approval(
    api: Api, person: Person, notifier: Notifier, client: Client, database: Database, receiver: Endpoint
) -> None:
    steps = [
        webhook(receiver.url),
        {"id": "approval", "type": "wait", "config": {}},
        transform("after", "approval.body"),
    ]
    run_id = await begin(person, await create(person, steps=steps, **OWN))
    view = await become(person, run_id, "waiting")
    assert (await post(api, view["resume_urls"]["approval"], json="yes")).status_code == 202
    assert (await become(person, run_id, "completed"))["output"] == "yes"
    await by_workflow(client, database, run_id)
    assert len(receiver.requests) == 1


async def test_a_retry_from_a_step(
    person: Person, notifier: Notifier, client: Client, database: Database, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.json_response(
        {}, status=404 if len(receiver.requests) == 2 else 200
    )
    steps = [
        webhook(f"{receiver.url}/one", "one"),
        webhook(f"{receiver.url}/two", "two"),
        transform("end", "two.status"),
    ]
    first = await begin(person, await create(person, steps=steps, **OWN))
    await become(person, first, "failed")
    answer = await person.key.post(f"/api/workflows/runs/{first}/retry", json={"from_step": "two"})
    second = answer.json()["run_id"]
    assert (await become(person, second, "completed", "failed"))["output"] == 200
    assert receiver.paths == ["/one", "/two", "/two"]
    await by_workflow(client, database, first, "failed")
    assert await called(await run_workflow(client, UUID(second))) == ["two: webhook"]


async def test_the_run_that_follows_a_failure(
    person: Person, notifier: Notifier, client: Client, database: Database
) -> None:
    handler = await create(person, steps=[transform("out", "trigger.error.code")], **OWN)
    failing = await create(
        person, steps=[transform("bad", "abs(trigger)")], on_failure={"workflow_id": handler["id"]}, **OWN
    )
    run_id = await begin(person, failing, "x")
    assert (await become(person, run_id, "failed"))["error"]["code"] == "wrong_type"

    async def handled() -> list[JSONObject]:
        return [run for run in await runs_of(person, handler) if run["completed_at"]]

    [run] = await until(handled)
    assert (await become(person, run["id"], "completed"))["output"] == "wrong_type"
    await by_workflow(client, database, run_id, "failed")
    await by_workflow(client, database, run["id"])


@pytest.mark.parametrize("on_error", ["fail", "continue"])
async def test_steps_side_by_side_of_which_one_fails(
    person: Person, notifier: Notifier, client: Client, receiver: Endpoint, on_error: str
) -> None:
    receiver.answer = lambda request: web.json_response({}, status=404 if request["path"] == "/b" else 200)
    names = "abc"
    steps: list[JSONObject] = [
        webhook(f"{receiver.url}/{name}", name) | {"needs": [], "on_error": on_error} for name in names
    ]
    end = transform("end", "[steps.a.status, steps.b.status, steps.c.status]", needs=list(names))
    run_id = await begin(person, await create(person, steps=[*steps, end], **OWN))
    view = await become(person, run_id, "completed", "failed")
    assert view["status"] == ("failed" if on_error == "fail" else "completed")
    if on_error == "continue":
        assert view["output"] == ["completed", "failed", "completed"]
    handle = await run_workflow(client, UUID(run_id))
    assert await handle.result() == view["status"]
    assert sorted(await called(handle)) == [f"{name}: webhook" for name in names]
