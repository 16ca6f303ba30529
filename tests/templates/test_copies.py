"""`template_id` makes a workflow like a template: a draft with warnings where the account lacks something."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from database import Database
from models import audit, templates
from tests.api_server import Api, Person
from tests.automations.workflows import wrong
from tests.templates.copies import copy

TOR = "alert-on-tor"
AT_SLACK = ("/steps/3/config/url", "unknown_secret")


@pytest.fixture
async def newcomer(api: Api) -> Person:
    """An account that has nothing yet."""
    return await api.person()


def doubts(workflow: dict[str, Any]) -> set[tuple[str, str]]:
    return {(warning["pointer"], warning["code"]) for warning in workflow["warnings"]}


async def test_a_copy_is_as_its_template_and_active_where_nothing_lacks(person: Person) -> None:
    made = await copy(person, TOR)
    assert made | templates.every()[TOR].document() == made
    assert (made["status"], made["warnings"], made["version"]) == ("active", [], 1)


async def test_fields_beside_the_template_take_the_place_of_its_own(person: Person) -> None:
    own = {
        "name": "Mine",
        "description": "For me.",
        "status": "paused",
        "trigger": {"type": "manual"},
        "steps": [{"id": "only", "type": "transform", "config": {"expression": "trigger"}}],
        "concurrency": {"limit": 2, "on_limit": "queue"},
    }
    made = await copy(person, TOR, **own)
    assert made | own == made


async def test_a_copy_that_lacks_a_secret_is_a_draft_that_names_it(newcomer: Person) -> None:
    made = await copy(newcomer, TOR, status="active")
    assert (made["status"], doubts(made)) == ("draft", {AT_SLACK})
    assert "SLACK_WEBHOOK_URL" in made["warnings"][0]["message"]


async def test_a_copy_that_lacks_the_secret_of_its_signature_is_a_draft(newcomer: Person) -> None:
    made = await copy(newcomer, "github-first-contribution")
    assert made["status"] == "draft"
    assert ("/trigger/signature/secret", "unknown_secret") in doubts(made)


async def test_a_copy_that_lacks_a_monitor_is_a_draft_that_names_it(person: Person) -> None:
    trigger = {"type": "monitor_event", "monitor_id": str(uuid4())}
    made = await copy(person, "monitor-changes-to-slack", trigger=trigger)
    assert (made["status"], doubts(made)) == ("draft", {("/trigger/monitor_id", "unknown_monitor")})


async def test_a_draft_can_be_active_once_it_lacks_nothing(newcomer: Person) -> None:
    path = f"/api/workflows/{(await copy(newcomer, TOR))['id']}"
    refused = await newcomer.key.patch(path, json={"status": "active"})
    assert (refused.status_code, wrong(refused)) == (400, {AT_SLACK})
    secret = {"name": "SLACK_WEBHOOK_URL", "value": "https://example.com"}
    await newcomer.key.post("/api/workflows/secrets", json=secret)
    assert (await newcomer.key.patch(path, json={"status": "active"})).json()["status"] == "active"


async def test_a_workflow_that_is_no_copy_must_have_its_secrets(newcomer: Person) -> None:
    answer = await newcomer.key.post("/api/workflows", json=templates.every()[TOR].document())
    assert (answer.status_code, wrong(answer)) == (400, {AT_SLACK})


async def test_a_copy_that_is_wrong_in_another_way_is_refused_with_all_that_is_wrong(
    newcomer: Person,
) -> None:
    body = {"template_id": TOR, "name": "", "trigger": {"type": "webhok"}}
    answer = await newcomer.key.post("/api/workflows", json=body)
    expected = {("/name", "too_short"), ("/trigger/type", "not_allowed"), AT_SLACK}
    assert (answer.status_code, wrong(answer)) == (400, expected)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        pytest.param("alert-on-tour", "Did you mean alert-on-tor?", id="misspelt"),
        pytest.param(7, "GET /api/workflows/templates lists them.", id="number"),
    ],
)
async def test_an_unknown_template_is_refused_with_the_nearest_one(
    person: Person, named: Any, told: str
) -> None:
    answer = await person.key.post("/api/workflows", json={"template_id": named})
    assert (answer.status_code, wrong(answer)) == (400, {("/template_id", "unknown_template")})
    assert told in answer.json()["errors"][0]["message"]


async def test_null_is_no_template(newcomer: Person) -> None:
    body = {**templates.every()[TOR].document(), "template_id": None}
    assert wrong(await newcomer.key.post("/api/workflows", json=body)) == {AT_SLACK}


async def test_a_workflow_cannot_become_a_copy_later(person: Person) -> None:
    path = f"/api/workflows/{(await copy(person, TOR))['id']}"
    answer = await person.key.patch(path, json={"template_id": TOR})
    assert wrong(answer) == {("/template_id", "unknown_field")}


async def test_validating_says_what_copying_would_say(newcomer: Person) -> None:
    answer = await newcomer.key.post("/api/workflows/validate", json={"template_id": TOR})
    report = answer.json()
    assert (report["valid"], report["errors"], doubts(report)) == (True, [], {AT_SLACK})


async def test_a_key_that_may_not_look_up_copies_no_lookups(api: Api) -> None:
    person = await api.person(scopes=["workflows"])
    answer = await person.key.post("/api/workflows", json={"template_id": TOR})
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")


async def test_the_audit_log_names_the_template_of_a_copy(database: Database, newcomer: Person) -> None:
    made = await copy(newcomer, TOR)
    async with database.connection() as connection:
        entry = (await audit.entries(connection, newcomer.account.id))[0]
    assert (entry.action, entry.target.id) == ("workflow.created", UUID(made["id"]))
    assert entry.changes == {"status": "draft", "template_id": TOR}
