"""An agent cannot answer for a person: neither send itself the resume URL, nor take out what asks."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from typing import Any

import pytest
from aiohttp import web

from api import saving
from api.auth.credentials import Presented
from api.deps import rules_for
from language.definition import Definition
from language.steps import WebhookStep
from models.audit import Actor
from models.automations import templates
from models.errors import Forbidden
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, transform, webhook
from tests.automations.workflows import create
from tests.mcp.clients import Agent

pytestmark = pytest.mark.usefixtures("notifier")

OWN_URL = "http://agent.example/collect"


def wait(**config: Any) -> dict[str, Any]:
    return {"id": "approval", "type": "wait", "config": config}


def asking(receiver_url: str) -> list[dict[str, Any]]:
    """Ask a person by a request, wait for the answer, and act if it is a yes."""
    asked = {"input_schema": {"type": "object", "required": ["ok"]}, "timeout": 600}
    return [
        webhook(f"{receiver_url}/ask", "ask", body={"url": "{{ run.resume_urls.approval }}"}),
        wait(**asked),
        {**webhook(f"{receiver_url}/act", "act"), "if": "approval.body.ok"},
    ]


def changed(steps: list[dict[str, Any]], index: int, **fields: Any) -> dict[str, Any]:
    steps = copy.deepcopy(steps)
    steps[index] |= fields
    return {"steps": steps}


def without(steps: list[dict[str, Any]], index: int) -> dict[str, Any]:
    left = [step for position, step in enumerate(steps) if position != index]
    return {"steps": [{name: step[name] for name in step if name != "if"} for step in left]}


STEPS = asking("http://people.example")
LINK = {"link": "{{ run.resume_urls.approval }}"}
WALKING_ROUND = {
    "send itself the URL in one more step": {"steps": [webhook(OWN_URL, "mine", body=LINK), *STEPS]},
    "have the URL sent elsewhere": changed(STEPS, 0, config={"url": OWN_URL, "body": LINK}),
    "follow redirects with it": changed(STEPS, 0, config=STEPS[0]["config"] | {"follow_redirects": True}),
    "take the step out": without(STEPS[1:], 0),
    "skip the step": changed(STEPS, 1, **{"if": "`false`"}),
    "not need the step": changed(STEPS, 2, needs=[], **{"if": "`true`"}),
    "go on without an answer": changed(STEPS, 1, config={"timeout": 0.1, "on_timeout": "continue"}),
    "go on after its failure": changed(STEPS, 1, on_error="continue"),
    "take any answer for a yes": changed(STEPS, 2, **{"if": "`true`"}),
    "take an answer of any shape": changed(STEPS, 1, config={"timeout": 600}),
    "act on something else": changed(STEPS, 2, config={"url": OWN_URL}),
    "act before": {"steps": [webhook(OWN_URL, "before"), *STEPS]},
    "have another trigger": {"trigger": {"type": "manual"}},
    "call it something harmless": {"name": "Pay 1 EUR"},
    "with a change of status beside it": {"status": "paused", "name": "Pay 1 EUR"},
}  # fmt: skip


@pytest.mark.parametrize("changes", WALKING_ROUND.values(), ids=WALKING_ROUND)
async def test_an_agent_changes_nothing_of_a_workflow_that_waits_for_a_person(
    person: Person, agent: Agent, changes: dict[str, Any]
) -> None:
    made = await create(person, steps=STEPS)
    text = await agent.refused("update_workflow", workflow_id=made["id"], base_version=1, changes=changes)
    assert text.startswith("person_required: ") and "Ask the user" in text
    assert (await person.key.get(f"/api/workflows/{made['id']}")).json()["version"] == 1


async def test_an_agent_may_pause_a_workflow_that_waits_for_a_person(person: Person, agent: Agent) -> None:
    made = await create(person, steps=STEPS)
    for version, status in enumerate(["paused", "active"], 1):
        changed = await agent.call(
            "update_workflow", workflow_id=made["id"], base_version=version, changes={"status": status}
        )
        assert changed["status"] == status


async def test_a_person_may_change_with_the_same_key_what_an_agent_may_not(
    person: Person, agent: Agent
) -> None:
    made = await create(person, steps=STEPS)
    answer = await person.key.patch(f"/api/workflows/{made['id']}", json={"steps": []})
    assert answer.status_code == 200
    changes = {"steps": [transform("t", "trigger")]}
    await agent.call("update_workflow", workflow_id=made["id"], base_version=2, changes=changes)


async def test_a_workflow_that_runs_one_that_waits_is_changed_by_people_alone(
    person: Person, agent: Agent
) -> None:
    asks = await create(person, name="asks", steps=[wait()])
    middle = await create(person, name="middle", steps=[sub_workflow(asks["id"])])
    outer = await create(person, name="outer", steps=[sub_workflow(middle["id"])])
    for made in (middle, outer):
        text = await agent.refused(
            "update_workflow", workflow_id=made["id"], base_version=1, changes={"steps": []}
        )
        assert text.startswith("person_required: ")


async def test_to_delete_what_waits_frees_no_workflow_that_runs_it(person: Person, agent: Agent) -> None:
    asks = await create(person, name="asks", steps=[wait()])
    outer = await create(person, name="outer", steps=[sub_workflow(asks["id"])])
    await person.key.delete(f"/api/workflows/{asks['id']}")
    text = await agent.refused(
        "update_workflow", workflow_id=outer["id"], base_version=1, changes={"steps": []}
    )
    assert text.startswith("person_required: ")


def sub_workflow(workflow_id: str) -> dict[str, Any]:
    return {"id": "sub", "type": "workflow", "config": {"workflow_id": workflow_id}}


SPELLINGS = [
    "run.resume_urls.approval", "run.resume_urls", 'run."resume_urls".approval', '"run".resume_urls',
    "run.resume_urls | approval", "run | resume_urls", "run.{a: resume_urls}", "run.[resume_urls]", "run",
    "run.*", "values(run)", "@", "@.run.resume_urls", "[run][0].resume_urls", "{a: run.resume_urls}",
    "run.resume_urls == `1`", "to_string(run.resume_urls)", "run.resume_urls.*", "*.resume_urls",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("place", ["url", "headers", "body"])
async def test_an_agent_makes_no_workflow_that_sends_resume_urls(
    agent: Agent, receiver: Endpoint, place: str
) -> None:
    async def attempt(spelling: str) -> None:
        given = f"{{{{ {spelling} }}}}"
        config: dict[str, Any] = {"url": receiver.url, "body": {"x": 1}}
        config |= {"url": {"url": f"{receiver.url}/{given}"}, "headers": {"headers": {"X-A": given}}}.get(
            place, {"body": {"x": given}}
        )
        steps = [webhook(**config), wait(timeout=600)]
        made = await agent.result("create_workflow", definition={"name": "x", "steps": steps})
        if not made.is_error and made.structured_content is not None:
            await agent.call("run_workflow", workflow_id=made.structured_content["id"], wait_seconds=2)

    await asyncio.gather(*map(attempt, SPELLINGS))
    sent = json.dumps([dict(request) for request in receiver.requests], default=str)
    assert receiver.requests and "resume" not in sent


async def test_an_agent_adds_no_resume_url_to_a_workflow_of_its_own(agent: Agent) -> None:
    made = await agent.call("create_workflow", definition={"name": "x", "steps": [transform("t", "trigger")]})
    text = await agent.refused(
        "update_workflow", workflow_id=made["id"], base_version=1, changes={"steps": STEPS}
    )
    assert text.startswith("person_required: ")


async def test_an_agent_is_told_so_when_it_validates(agent: Agent) -> None:
    text = await agent.refused("validate_workflow", definition={"name": "x", "steps": STEPS})
    assert text.startswith("person_required: ")
    assert (await agent.call("validate_workflow", definition={"template_id": "approve-by-link"})) is not None


async def test_an_agent_copies_a_template_that_asks_for_approval_only_as_it_is(
    agent: Agent, person: Person
) -> None:
    made = await agent.call("create_workflow", template_id="approve-by-link")
    assert made["steps"][1]["type"] == "wait"
    steps = made["steps"]
    steps[0]["config"]["url"] = OWN_URL
    text = await agent.refused("create_workflow", template_id="approve-by-link", definition={"steps": steps})
    assert text.startswith("person_required: ")


async def test_an_agent_stores_no_secret_by_which_a_template_would_send_it_the_url(
    agent: Agent, person: Person
) -> None:
    document = {"template_id": "approve-by-link", "secrets": {"SLACK_WEBHOOK_URL": OWN_URL}}
    text = await agent.refused("create_workflow", definition=document)
    assert text.startswith("person_required: ")
    assert (await person.key.get("/api/workflows/secrets")).json()["secrets"] == []


def test_no_template_sends_resume_urls_to_where_an_event_says() -> None:
    for template in templates.load_templates().values():
        definition = Definition.model_validate(template.document())
        for step in definition.steps:
            if isinstance(step, WebhookStep) and "resume_urls" in step.model_dump_json():
                assert re.fullmatch(r"\{\{ secrets\.\w+ \}\}", step.config.url), template.id


async def test_an_agent_may_make_a_workflow_that_waits_for_a_person(person: Person, agent: Agent) -> None:
    made = await agent.call("create_workflow", definition={"name": "x", "steps": [wait(timeout=600)]})
    run = await agent.call("run_workflow", workflow_id=made["id"], wait_seconds=2)
    assert run["status"] == "waiting" and "/resume/" not in json.dumps(run)
    shown = (await person.key.get(f"/api/workflows/runs/{run['id']}")).json()
    assert shown["resume_urls"].keys() == {"approval"}


async def test_an_agent_does_not_retry_with_a_version_from_before_the_approval(
    person: Person, agent: Agent, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.json_response({}, status=404)
    act = webhook(receiver.url, "act")
    made = await create(person, steps=[act])
    failed = await agent.call("run_workflow", workflow_id=made["id"], input="x")
    assert failed["status"] == "failed"
    await person.key.patch(f"/api/workflows/{made['id']}", json={"steps": [wait(timeout=600), act]})
    for version in ({}, {"version": 1}):
        text = await agent.refused("retry_workflow_run", run_id=failed["id"], **version)
        assert text.startswith("person_required: ") and "which is 2" in text
    again = await agent.call("retry_workflow_run", run_id=failed["id"], version=2, wait_seconds=2)
    assert again["status"] == "waiting"


async def test_an_agent_restores_no_version_from_before_the_approval(api: Api, person: Person) -> None:
    made = await create(person, steps=[transform("t", "trigger")])
    await person.key.patch(f"/api/workflows/{made['id']}", json={"steps": STEPS})
    caller = await api.services.credentials.find(Presented(person.secret))
    with pytest.raises(Forbidden) as refused:
        actor = Actor(person.account.id, "key", source="mcp")
        editor = saving.Editor(actor, rules_for(api.services, caller), expected_version=None)
        await saving.restore(api.services, editor, made["id"], 1)
    assert refused.value.code == "person_required"


async def test_an_answer_that_echoes_a_resume_url_shows_none_to_an_agent(
    person: Person, agent: Agent, receiver: Endpoint
) -> None:
    receiver.answer = lambda request: web.Response(body=request["body"], content_type="application/json")
    made = await create(person, steps=asking(receiver.url))
    run = await agent.call("run_workflow", workflow_id=made["id"], wait_seconds=2)
    assert run["status"] == "waiting" and receiver.requests
    whole = await agent.call("get_workflow_run", run_id=run["id"], full=True)
    token = json.loads(receiver.requests[0]["body"])["url"].rpartition("/")[2]
    for view in (run, whole, await agent.call("list_workflow_runs", workflow_id=made["id"])):
        assert token not in json.dumps(view) and "/resume/" not in json.dumps(view).replace("resume/***", "")
