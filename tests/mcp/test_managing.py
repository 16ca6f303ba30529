"""Agents manage lists, monitors, workflows, runs, jobs and webhooks, by the rules of the routes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, transform, webhook
from tests.automations.workflows import create
from tests.mcp.clients import Agent

pytestmark = pytest.mark.usefixtures("notifier")

UNKNOWN = "00000000-0000-7000-8000-000000000000"


async def test_targets_of_a_list_are_added_read_and_removed(agent: Agent) -> None:
    made = await agent.call("create_contact_list", name="Hosts", type="ip", targets=["8.8.8.8"])
    added = await agent.call("add_contact_list_targets", list_id=made["id"], targets=["1.1.1.1", "8.8.8.8"])
    assert (added["added"], added["duplicates"]) == (1, 1)
    page = await agent.call("get_contact_list_targets", list_id=made["id"], limit=1, offset=1)
    assert (page["targets"], page["total"]) == (["1.1.1.1"], 2)
    removed = await agent.call("remove_contact_list_targets", list_id=made["id"], targets=["8.8.8.8"])
    assert removed["deleted"] == 1
    assert (await agent.call("delete_contact_list", list_id=made["id"]))["deleted"] is True
    assert (await agent.refused("delete_contact_list", list_id=made["id"])).startswith("not_found: ")


async def test_a_monitor_is_paused_resumed_and_deleted(agent: Agent, person: Person) -> None:
    made = await agent.call("create_monitor", name="Ours", type="ip", targets=["8.8.8.8"])
    for status in ("paused", "active"):
        assert (await agent.call("set_monitor_status", monitor_id=made["id"], status=status))[
            "status"
        ] == status
    run = await agent.call("run_monitor", monitor_id=made["id"], wait_seconds=0)
    ended = await agent.call("cancel_monitor_run", monitor_id=made["id"], run_id=run["id"])
    assert ended["status"] in ("cancelled", "completed")
    await agent.call("delete_monitor", monitor_id=made["id"])
    assert (await person.key.get(f"/api/monitors/{made['id']}")).status_code == 404


async def test_a_workflow_is_paused_resumed_and_deleted(agent: Agent, person: Person) -> None:
    made = await agent.call("create_workflow", definition={"name": "x", "steps": [transform("t", "trigger")]})
    for status in ("paused", "active"):
        shown = await agent.call("set_workflow_status", workflow_id=made["id"], status=status)
        assert shown["status"] == status
    await agent.call("delete_workflow", workflow_id=made["id"])
    assert (await person.key.get(f"/api/workflows/{made['id']}")).status_code == 404


async def test_a_workflow_that_waits_for_a_person_is_paused_and_not_deleted(
    agent: Agent, person: Person
) -> None:
    made = await create(person, steps=[{"id": "approval", "type": "wait", "config": {}}])
    await agent.call("set_workflow_status", workflow_id=made["id"], status="paused")
    text = await agent.refused("delete_workflow", workflow_id=made["id"])
    assert text.startswith("person_required: ")
    assert (await person.key.delete(f"/api/workflows/{made['id']}")).status_code == 200


async def test_a_run_is_cancelled(agent: Agent, receiver: Endpoint) -> None:
    steps = [webhook(f"{receiver.url}/held")]
    made = await agent.call("create_workflow", definition={"name": "x", "steps": steps})
    run = await agent.call("run_workflow", workflow_id=made["id"], wait_seconds=0)
    assert (await agent.call("cancel_workflow_run", run_id=run["id"]))["status"] == "cancelled"


async def test_a_job_is_cancelled(agent: Agent) -> None:
    targets = [f"9.9.{a}.{b}" for a in range(8) for b in range(200)]
    job = await agent.call("start_bulk_job", type="ip", targets=targets)
    assert (await agent.call("cancel_bulk_job", job_id=job["id"]))["status"] in ("cancelled", "completed")


async def test_of_secrets_there_are_the_names_alone(agent: Agent, person: Person) -> None:
    await person.key.post("/api/workflows/secrets", json={"name": "TOKEN", "value": "canary-value"})
    steps = [webhook("https://example.com", headers={"X": "{{ secrets.TOKEN }}"})]
    await create(person, name="unseen", agents=False, steps=steps)
    listed = await agent.call("list_secrets")
    assert [one["name"] for one in listed["secrets"]] == ["TOKEN"]
    assert "canary-value" not in json.dumps(listed) and "unseen" not in json.dumps(listed)


async def test_a_webhook_is_made_listed_and_deleted_without_its_secret(agent: Agent, person: Person) -> None:
    headers = {"Authorization": "Bearer canary-value"}
    body = {"url": "https://example.com/people", "events": ["credits.low"], "headers": headers}
    assert (await person.key.post("/api/webhooks", json=body)).status_code == 201
    made = await agent.call("create_webhook", url="https://example.com/agents", events=["monitor.*"])
    listed = (await agent.call("list_webhooks"))["webhooks"]
    assert [one["url"] for one in listed] == ["https://example.com/agents", "https://example.com/people"]
    assert listed[1]["headers"] == ["Authorization"]
    for shown in (made, listed):
        assert "secret" not in json.dumps(shown) and "whsec_" not in json.dumps(shown)
        assert "canary-value" not in json.dumps(shown)
    await agent.call("delete_webhook", webhook_id=made["id"])
    assert len((await agent.call("list_webhooks"))["webhooks"]) == 1


@pytest.mark.parametrize(
    ("events", "refused"),
    [(["*"], True), (["workflow.*"], True), (["workflow.run.failed"], True), (["lookup.completed"], True),
     (["monitor.*", "credits.low"], False)],
)  # fmt: skip
async def test_an_agent_has_no_events_sent_that_tell_of_hidden_workflows(
    agent: Agent, person: Person, events: list[str], refused: bool
) -> None:
    url = "https://example.com/agents"
    await agent.call("create_webhook", url=url, events=events)
    await create(person, agents=False)
    if refused:
        text = await agent.refused("create_webhook", url=url, events=events)
        assert text.startswith("person_required: ")
        assert (await person.key.post("/api/webhooks", json={"url": url, "events": events})).is_success
    else:
        await agent.call("create_webhook", url=url, events=events)


HIDDEN: dict[str, dict[str, Any]] = {
    "set_workflow_status": {"status": "paused"}, "delete_workflow": {}, "cancel_workflow_run": {},
}  # fmt: skip


@pytest.mark.parametrize("tool", HIDDEN)
async def test_a_hidden_workflow_is_not_there_to_be_managed(agent: Agent, person: Person, tool: str) -> None:
    made = await create(person, agents=False, steps=[{"id": "w", "type": "delay", "config": {"hours": 1}}])
    started = await person.key.post(f"/api/workflows/{made['id']}/run", json={"input": None})
    name, id = ("run_id", started.json()["run_id"]) if "run" in tool else ("workflow_id", made["id"])
    texts = [await agent.refused(tool, **{name: one}, **HIDDEN[tool]) for one in (id, UNKNOWN)]
    assert all(text.startswith("not_found: ") for text in texts)
    shown = (await person.key.get(f"/api/workflows/{made['id']}")).json()
    assert (shown["status"], shown["version"]) == ("active", 1)
    run = (await person.key.get(f"/api/workflows/runs/{started.json()['run_id']}")).json()
    assert run["status"] != "cancelled"


SCOPES: dict[str, tuple[str, dict[str, Any]]] = {
    "list_secrets": ("workflows", {}),
    "list_webhooks": ("webhooks", {}),
    "create_webhook": ("webhooks", {"url": "https://example.com", "events": ["*"]}),
    "delete_webhook": ("webhooks", {"webhook_id": UNKNOWN}),
    "get_contact_list_targets": ("lists", {"list_id": UNKNOWN}),
    "add_contact_list_targets": ("lists", {"list_id": UNKNOWN, "targets": ["8.8.8.8"]}),
    "remove_contact_list_targets": ("lists", {"list_id": UNKNOWN, "targets": ["8.8.8.8"]}),
    "delete_contact_list": ("lists", {"list_id": UNKNOWN}),
    "set_monitor_status": ("monitors", {"monitor_id": UNKNOWN, "status": "paused"}),
    "cancel_monitor_run": ("monitors", {"monitor_id": UNKNOWN, "run_id": UNKNOWN}),
    "delete_monitor": ("monitors", {"monitor_id": UNKNOWN}),
    "set_workflow_status": ("workflows", {"workflow_id": UNKNOWN, "status": "paused"}),
    "delete_workflow": ("workflows", {"workflow_id": UNKNOWN}),
    "cancel_workflow_run": ("workflows", {"run_id": UNKNOWN}),
    "cancel_bulk_job": ("bulk", {"job_id": UNKNOWN}),
}


async def test_each_tool_needs_the_scope_of_its_route(api: Api) -> None:
    person = await api.person(scopes=["credits"])
    agent = Agent(api.url, person.secret)
    for tool, (scope, arguments) in SCOPES.items():
        text = await agent.refused(tool, **arguments)
        assert text.startswith("insufficient_scope: ") and scope in text, tool
