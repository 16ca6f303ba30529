"""Agents make workflows, run them, read why they failed and mend them; some are hidden from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, webhook
from tests.mcp.clients import MODES, Agent, connected

pytestmark = pytest.mark.usefixtures("notifier")


def transform(expression: str) -> dict[str, Any]:
    return {"id": "made", "type": "transform", "config": {"expression": expression}}


async def hidden_workflow(person: Person) -> str:
    document = {"name": "hidden", "agents": False, "steps": [transform("trigger")]}
    response = await person.key.post("/api/workflows", json=document)
    assert response.status_code == 201, response.text
    return response.json()["id"]


@pytest.mark.long
async def test_a_workflow_is_made_of_a_template_fails_is_read_and_mended(
    agent: Agent, receiver: Endpoint
) -> None:
    templates = (await agent.call("list_workflow_templates", category="security"))["templates"]
    assert "alert-on-tor" in [template["id"] for template in templates]
    [template] = (await agent.call("list_workflow_templates", template_id="alert-on-tor"))["templates"]
    steps = template["steps"]
    steps[-1] = {
        "id": steps[-1]["id"], "type": "webhook", "if": steps[-1].get("if"),
        "config": {"url": f"{receiver.url}/nowhere"},
    }  # fmt: skip
    steps[-1] = {name: value for name, value in steps[-1].items() if value is not None}
    assert (await agent.call("validate_workflow", definition={"name": "x", "steps": steps}))["valid"]
    made = await agent.call("create_workflow", template_id="alert-on-tor", definition={"steps": steps})
    receiver.answer = lambda request: _answer(404 if request["path"] == "/nowhere" else 200)
    failed = await agent.call("run_workflow", workflow_id=made["id"], input={"ip": "185.220.101.1"})
    assert failed["status"] == "failed"
    assert failed["why"]["step"] == steps[-1]["id"] and failed["why"]["what_to_do"]
    assert failed["why"]["input"]["url"].endswith("/nowhere")
    steps[-1]["config"]["url"] = f"{receiver.url}/alerts"
    changed = await agent.call(
        "update_workflow", workflow_id=made["id"], base_version=made["version"], changes={"steps": steps}
    )
    assert changed["version"] == 2
    ended = await agent.call("retry_workflow_run", run_id=failed["id"], version=2)
    assert ended["status"] == "completed" and "why" not in ended
    assert receiver.paths == ["/nowhere", "/alerts"]
    runs = await agent.call("list_workflow_runs", workflow_id=made["id"])
    assert [run["status"] for run in runs["runs"]] == ["completed", "failed"]


def _answer(status: int) -> Any:
    from aiohttp import web

    return web.json_response({"ok": status == 200}, status=status)


async def test_a_change_to_an_older_version_is_refused_with_what_to_do(agent: Agent) -> None:
    made = await agent.call("create_workflow", definition={"name": "x", "steps": [transform("trigger")]})
    change = {"workflow_id": made["id"], "base_version": 1, "changes": {"description": "new"}}
    await agent.call("update_workflow", **change)
    text = await agent.refused("update_workflow", **change)
    assert text.startswith("version_mismatch: ") and "get_workflow" in text


async def test_steps_that_are_read_and_written_back_are_the_same(agent: Agent, person: Person) -> None:
    body = {"a": "", "b": None, "c": [], "d": {}}
    steps = [{"id": "call", "type": "webhook", "config": {"url": "http://x.example", "body": body}}]
    made = await agent.call("create_workflow", definition={"name": "x", "steps": steps})
    read = await agent.call("get_workflow", workflow_id=made["id"])
    changes = {"steps": [*read["steps"], transform("trigger")]}
    await agent.call("update_workflow", workflow_id=made["id"], base_version=1, changes=changes)
    stored = (await person.key.get(f"/api/workflows/{made['id']}")).json()
    assert stored["steps"][0]["config"]["body"] == body


async def test_all_that_is_wrong_is_named_by_its_place(agent: Agent) -> None:
    steps = [transform("trigger.("), {"id": "b", "type": "fly", "config": {}}]
    text = await agent.refused("create_workflow", definition={"name": "x", "steps": steps})
    assert "- steps[0].config.expression: " in text and "- steps[1]" in text
    answer = await agent.call("validate_workflow", definition={"name": "x", "steps": steps})
    assert answer["valid"] is False and len(answer["errors"]) == 2


async def test_a_run_with_the_same_key_is_one_run(agent: Agent) -> None:
    made = await agent.call("create_workflow", definition={"name": "x", "steps": [transform("trigger")]})
    asked = {"workflow_id": made["id"], "input": 1, "idempotency_key": "k1"}
    assert (await agent.call("run_workflow", **asked))["id"] == (await agent.call("run_workflow", **asked))[
        "id"
    ]


async def test_a_long_run_is_answered_as_it_is_and_can_be_waited_for(
    agent: Agent, receiver: Endpoint
) -> None:
    steps = [{"id": "call", "type": "webhook", "config": {"url": f"{receiver.url}/held"}}]
    made = await agent.call("create_workflow", definition={"name": "x", "steps": steps})
    run = await agent.call("run_workflow", workflow_id=made["id"], wait_seconds=0)
    assert run["status"] in ("queued", "running")
    receiver.open.set()
    assert (await agent.call("get_workflow_run", run_id=run["id"], wait_seconds=30))["status"] == "completed"


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_is_told_how_far_a_run_is(api: Api, person: Person, agent: Agent, mode: str) -> None:
    made = await agent.call("create_workflow", definition={"name": "x", "steps": [transform("trigger")]})
    told: list[tuple[float, float | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total))

    async with connected(api.url, person.secret, mode) as client:
        await client.call_tool("run_workflow", {"workflow_id": made["id"]}, progress_callback=progress)
    assert told[-1] == (2, 2)


async def test_progress_grows_each_time_that_it_is_told(
    api: Api, person: Person, agent: Agent, receiver: Endpoint
) -> None:
    steps = [{"id": "call", "type": "webhook", "config": {"url": f"{receiver.url}/held"}}]
    made = await agent.call("create_workflow", definition={"name": "x", "steps": steps})
    told: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(done)
        if len(told) == 3:
            receiver.open.set()

    async with connected(api.url, person.secret) as client:
        asked = {"workflow_id": made["id"], "wait_seconds": 30}
        await client.call_tool("run_workflow", asked, progress_callback=progress)
    assert len(told) > 3 and told == sorted(set(told)) and told[-1] == 2


async def test_a_hidden_workflow_is_to_no_tool_another_than_an_unknown_one(
    agent: Agent, person: Person
) -> None:
    hidden, unknown = await hidden_workflow(person), "00000000-0000-7000-8000-000000000000"
    started = await person.key.post(f"/api/workflows/{hidden}/run?wait=20", json={"input": 1})
    assert (await agent.call("list_workflows"))["total"] == 0
    for tool, more in {
        "get_workflow": {}, "run_workflow": {}, "list_workflow_runs": {},
        "update_workflow": {"base_version": 1, "changes": {"agents": True}},
    }.items():  # fmt: skip
        texts = [await agent.refused(tool, workflow_id=id, **more) for id in (hidden, unknown)]
        assert texts[0] == texts[1] and texts[0].startswith("not_found: "), tool
    for tool in ("get_workflow_run", "retry_workflow_run"):
        assert (await agent.refused(tool, run_id=started.json()["id"])).startswith("not_found: ")
    assert (await person.key.get(f"/api/workflows/{hidden}")).json()["version"] == 1


@pytest.mark.parametrize("id", ["templates", "runs", "schema", "..", "a/b", "", "x" * 9999])
async def test_what_is_no_id_is_not_found(agent: Agent, id: str) -> None:
    for tool in ("get_workflow", "run_workflow", "list_workflow_runs"):
        assert (await agent.refused(tool, workflow_id=id)).startswith("not_found: "), tool


@pytest.mark.parametrize("place", ["step", "on_failure"])
async def test_an_agent_cannot_run_a_hidden_workflow_by_way_of_another(
    agent: Agent, person: Person, place: str
) -> None:
    hidden = await hidden_workflow(person)
    document: dict[str, Any] = {"name": "way", "steps": [transform("trigger")]}
    if place == "step":
        document["steps"] = [{"id": "sub", "type": "workflow", "config": {"workflow_id": hidden}}]
    else:
        document["on_failure"] = {"workflow_id": hidden}
    checked = await agent.call("validate_workflow", definition=document)
    assert [error["code"] for error in checked.get("errors", [])] == ["unknown_workflow"]
    assert (await agent.refused("create_workflow", definition=document)).startswith("unknown_workflow: ")
    made = await agent.call("create_workflow", definition={"name": "way", "steps": [transform("trigger")]})
    changes = {name: document[name] for name in document if name != "name"}
    text = await agent.refused("update_workflow", workflow_id=made["id"], base_version=1, changes=changes)
    assert text.startswith("unknown_workflow: ")


@pytest.mark.parametrize("twins", [1, 2])
async def test_no_name_tells_an_agent_of_a_hidden_workflow(agent: Agent, person: Person, twins: int) -> None:
    for _ in range(twins):
        await hidden_workflow(person)

    def naming(name: str) -> dict[str, Any]:
        steps = [{"id": "sub", "type": "workflow", "config": {"workflow_id": name}}]
        return {"name": "way", "steps": steps}

    checked = [
        await agent.call("validate_workflow", definition=naming(name)) for name in ("hidden", "nobody's")
    ]
    assert checked[0] == checked[1]
    assert [error["code"] for error in checked[0]["errors"]] == ["unknown_workflow"]
    texts = [
        await agent.refused("create_workflow", definition=naming(name)) for name in ("hidden", "nobody's")
    ]
    assert texts[0] == texts[1] and texts[0].startswith("unknown_workflow: ")


async def test_what_a_person_has_linked_an_agent_may_keep(agent: Agent, person: Person) -> None:
    hidden = await hidden_workflow(person)
    steps = [{"id": "sub", "type": "workflow", "config": {"workflow_id": hidden}}]
    made = (await person.key.post("/api/workflows", json={"name": "way", "steps": steps})).json()
    changed = await agent.call(
        "update_workflow", workflow_id=made["id"], base_version=1,
        changes={"description": "kept", "steps": [*steps, transform("sub")]},
    )  # fmt: skip
    assert changed["version"] == 2


async def test_what_agents_change_says_so_in_the_audit_log(agent: Agent, person: Person) -> None:
    made = await agent.call("create_workflow", definition={"name": "x", "steps": [transform("trigger")]})
    await person.key.patch(
        f"/api/workflows/{made['id']}", json={"name": "y"}, headers={"vedette.source": "mcp"}
    )
    await agent.call("run_workflow", workflow_id=made["id"])
    entries = (await person.key.get(f"/api/workflows/{made['id']}/audit")).json()["entries"]
    assert [(entry["action"], entry["source"]) for entry in entries] == [
        ("run.started", "mcp"), ("workflow.updated", "api"), ("workflow.created", "mcp"),
    ]  # fmt: skip


async def test_an_agent_gives_no_secrets(agent: Agent, person: Person) -> None:
    given = {"secrets": {"SLACK_WEBHOOK_URL": "https://example.com/told-to-a-model"}}
    copied = await agent.refused("create_workflow", template_id="alert-on-tor", definition=given)
    checked = await agent.refused("validate_workflow", definition={"name": "x", **given})
    for text in (copied, checked):
        assert text.startswith("person_required: Agents give no secrets") and "told-to-a-model" not in text
    assert (await person.key.get("/api/workflows/secrets")).json()["secrets"] == []


async def test_a_run_shows_no_resume_url(agent: Agent) -> None:
    steps = [{"id": "ask", "type": "wait", "config": {"timeout": 600}}]
    made = await agent.call("create_workflow", definition={"name": "x", "steps": steps})
    run = await agent.call("run_workflow", workflow_id=made["id"], wait_seconds=2)
    assert run["status"] == "waiting" and "/resume/" not in json.dumps(run)


@pytest.mark.parametrize(("seconds", "by"), [(30, "shift"), (0, "activity")])
async def test_a_run_for_whose_end_an_agent_waits_goes_by_shift(
    agent: Agent, person: Person, receiver: Endpoint, seconds: int, by: str
) -> None:
    definition = {"name": "x", "execution": "auto", "steps": [webhook(receiver.url)]}
    made = await agent.call("create_workflow", definition=definition)
    run = await agent.call("run_workflow", workflow_id=made["id"], wait_seconds=seconds)
    ended = await agent.call("get_workflow_run", run_id=run["id"], wait_seconds=30)
    shown = (await person.key.get(f"/api/workflows/runs/{run['id']}")).json()
    assert (ended["status"], [step["performed_by"] for step in shown["steps"]]) == ("completed", [by])


async def test_so_does_the_retry_of_one(agent: Agent, person: Person, receiver: Endpoint) -> None:
    receiver.answer = lambda _: _answer(404 if len(receiver.requests) == 1 else 200)
    definition = {"name": "x", "execution": "auto", "steps": [webhook(receiver.url)]}
    made = await agent.call("create_workflow", definition=definition)
    failed = await agent.call("run_workflow", workflow_id=made["id"])
    retried = await agent.call("retry_workflow_run", run_id=failed["id"])
    shown = (await person.key.get(f"/api/workflows/runs/{retried['id']}")).json()
    assert (shown["status"], [step["performed_by"] for step in shown["steps"]]) == ("completed", ["shift"])
