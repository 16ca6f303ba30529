"""`template_id` makes a workflow like a template: a draft with warnings where the account lacks something."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from database import Database
from models import audit
from models.automations import templates
from tests.api_server import Api, Person
from tests.automations.workflows import wrong
from tests.templates.copies import copy

TOR, FAILED = "alert-on-tor", "failed-runs"
UNHEARD = ("/steps/3/config/event", "alert_unheard")
AT_LETTERS = ("/steps/0/config/url", "unknown_secret")
KEPT = "https://example.com/letters"


@pytest.fixture
async def newcomer(api: Api) -> Person:
    """An account that has nothing yet."""
    return await api.person()


def doubts(workflow: dict[str, Any]) -> set[tuple[str, str]]:
    return {(warning["pointer"], warning["code"]) for warning in workflow["warnings"]}


async def test_a_copy_is_as_its_template_and_active_where_nothing_lacks(person: Person) -> None:
    made = await copy(person, "check-address-of-form")
    assert made | templates.load_templates()["check-address-of-form"].document() == made
    assert (made["status"], made["warnings"], made["version"]) == ("active", [], 1)


async def test_a_copy_whose_alerts_no_webhook_asks_for_is_active_and_says_so(newcomer: Person) -> None:
    made = await copy(newcomer, TOR)
    assert made | templates.load_templates()[TOR].document() == made
    assert (made["status"], doubts(made)) == ("active", {UNHEARD})
    webhook = {"url": "https://example.com/", "events": ["workflow.*"]}
    assert (await newcomer.key.post("/api/webhooks", json=webhook)).status_code == 201
    assert (await copy(newcomer, TOR))["warnings"] == []


async def test_a_copy_tells_slack_instead_where_the_account_has_its_url(newcomer: Person) -> None:
    url = {"SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T0/B0/x"}
    made = await copy(newcomer, TOR, secrets=url)
    [emitted] = [step for step in templates.load_templates()[TOR].steps if step["type"] == "emit"]
    [tell] = [step for step in made["steps"] if step["id"] == emitted["id"]]
    body = {"text": emitted["config"]["data"]["text"]}
    # What it has remembered as told, it tells although Slack is away for an hour.
    retry = {"max_attempts": 10, "initial_seconds": 1, "backoff": 3, "max_seconds": 3600}
    assert tell == emitted | {
        "type": "webhook",
        "retry": retry,
        "config": {"url": "{{ secrets.SLACK_WEBHOOK_URL }}", "body": body},
    }
    assert (made["status"], made["warnings"]) == ("active", [])
    again = await copy(newcomer, "login-from-new-country")
    assert again["steps"][-1]["type"] == "webhook"


async def secret_names(person: Person) -> list[str]:
    answer = await person.key.get("/api/workflows/secrets")
    return [one["name"] for one in answer.json()["secrets"]]


async def test_secrets_that_come_with_a_copy_are_stored_and_it_is_active(
    newcomer: Person, database: Database
) -> None:
    made = await copy(newcomer, FAILED, secrets={"DEAD_LETTER_URL": KEPT})
    assert (made["status"], doubts(made)) == ("active", {("/steps/2/config/event", "alert_unheard")})
    assert "secrets" not in made and await secret_names(newcomer) == ["DEAD_LETTER_URL"]
    async with database.connection() as connection:
        found = await audit.list_entries(connection, newcomer.account.id)
    assert [(one.action, one.target.name) for one in found[:2]] == [
        ("workflow.created", made["name"]), ("secret.created", "DEAD_LETTER_URL")
    ]  # fmt: skip
    assert KEPT not in str(found)


async def test_a_secret_that_there_is_is_not_overwritten_and_nothing_is_stored(newcomer: Person) -> None:
    await newcomer.key.post("/api/workflows/secrets", json={"name": "CRM_TOKEN", "value": "old"})
    given = {"CRM_TOKEN": "new", "CRM_CONTACTS_URL": KEPT}
    body = {"template_id": "enrich-crm-contact", "secrets": given}
    answer = await newcomer.key.post("/api/workflows", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "secret_exists")
    assert answer.json()["names"] == ["CRM_TOKEN"]
    assert await secret_names(newcomer) == ["CRM_TOKEN"]
    assert (await newcomer.key.get("/api/workflows")).json()["total"] == 0
    del given["CRM_TOKEN"]
    assert (await newcomer.key.post("/api/workflows", json=body)).json()["status"] == "active"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"DEAD_LETTERS_URL": KEPT, "DEAD_LETTER_URL": KEPT}, ("/secrets/DEAD_LETTERS_URL", "unused_secret")),
        ({"DEAD_LETTER_URL": 7}, ("/secrets/DEAD_LETTER_URL", "wrong_type")),
        ({"DEAD_LETTER_URL": ""}, ("/secrets/DEAD_LETTER_URL", "too_short")),
        ({"DEAD_LETTER_URL": KEPT * 1000}, ("/secrets/DEAD_LETTER_URL", "too_long")),
        ({"dead letter": KEPT}, ("/secrets", "invalid_format")),
        ({f"N{n}": KEPT for n in range(51)}, ("/secrets", "too_many_items")),
        ([KEPT], ("/secrets", "wrong_type")),
    ],
    ids=["unused", "number", "empty", "long", "name", "many", "array"],
)
@pytest.mark.parametrize("path", ["", "/validate"])
async def test_secrets_that_cannot_be_stored_are_refused_without_their_values(
    newcomer: Person, given: Any, found: tuple[str, str], path: str
) -> None:
    body = {"template_id": FAILED, "secrets": given}
    answer = await newcomer.key.post(f"/api/workflows{path}", json=body)
    assert found in wrong(answer) and KEPT not in answer.text
    assert await secret_names(newcomer) == []


@pytest.mark.parametrize("path", ["", "/validate"])
async def test_a_signing_secret_that_comes_along_must_be_hard_to_guess(newcomer: Person, path: str) -> None:
    body = {"template_id": "github-first-contribution", "secrets": {"GITHUB_WEBHOOK_SECRET": "short"}}
    answer = await newcomer.key.post(f"/api/workflows{path}", json=body)
    assert ("/trigger/signature/secret", "weak_secret") in wrong(answer)
    assert await secret_names(newcomer) == []


async def test_a_refused_workflow_stores_no_secrets(newcomer: Person) -> None:
    body = {"template_id": FAILED, "name": "", "secrets": {"DEAD_LETTER_URL": KEPT}}
    assert (await newcomer.key.post("/api/workflows", json=body)).status_code == 400
    assert await secret_names(newcomer) == []


async def test_two_copies_at_a_moment_store_a_secret_once(newcomer: Person) -> None:
    body = {"template_id": FAILED, "secrets": {"DEAD_LETTER_URL": KEPT}}
    made = await asyncio.gather(*(newcomer.key.post("/api/workflows", json=body) for _ in range(4)))
    assert sorted(answer.status_code for answer in made) == [201, 409, 409, 409]
    assert (await newcomer.key.get("/api/workflows")).json()["total"] == 1


async def test_a_workflow_that_is_no_copy_may_bring_its_secrets_too(newcomer: Person) -> None:
    call = {"id": "call", "type": "webhook", "config": {"url": "{{ secrets.WHERE }}"}}
    body = {"name": "x", "steps": [call], "secrets": {"WHERE": KEPT}}
    answer = await newcomer.key.post("/api/workflows", json=body)
    assert answer.status_code == 201 and await secret_names(newcomer) == ["WHERE"]


async def test_a_schedule_that_was_not_told_what_to_look_at_is_a_draft(newcomer: Person) -> None:
    answer = await newcomer.key.post("/api/workflows", json={"template_id": "domain-expiry-watch"})
    made = answer.json()
    missing = ("/trigger/input/domains", "missing_input")
    assert made["status"] == "draft" and missing in doubts(made)
    trigger = {"input": {"domains": ["example.com"]}}
    told = await copy(newcomer, "domain-expiry-watch", trigger=trigger)
    template = templates.load_templates()["domain-expiry-watch"]
    assert told["status"] == "active" and missing not in doubts(told)
    assert told["trigger"] == template.trigger | trigger


async def test_each_thing_that_lacks_says_how_to_give_it(newcomer: Person) -> None:
    for template_id, how in ((FAILED, '"secrets"'), ("daily-dark-web-report", '"trigger"')):
        answer = await newcomer.key.post("/api/workflows", json={"template_id": template_id})
        assert how in answer.json()["warnings"][0]["message"]


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
    made = await copy(newcomer, FAILED, status="active")
    assert made["status"] == "draft" and AT_LETTERS in doubts(made)
    assert "DEAD_LETTER_URL" in made["warnings"][0]["message"]


async def test_a_copy_that_lacks_the_secret_of_its_signature_is_a_draft(newcomer: Person) -> None:
    made = await copy(newcomer, "github-first-contribution")
    assert made["status"] == "draft"
    assert ("/trigger/signature/secret", "unknown_secret") in doubts(made)


async def test_a_copy_that_lacks_a_monitor_is_a_draft_that_names_it(person: Person) -> None:
    trigger = {"type": "monitor_event", "monitor_id": str(uuid4())}
    made = await copy(person, "monitor-changes", trigger=trigger)
    assert (made["status"], doubts(made)) == ("draft", {("/trigger/monitor_id", "unknown_monitor")})


async def test_a_draft_can_be_active_once_it_lacks_nothing(newcomer: Person) -> None:
    path = f"/api/workflows/{(await copy(newcomer, FAILED))['id']}"
    refused = await newcomer.key.patch(path, json={"status": "active"})
    assert (refused.status_code, wrong(refused)) == (400, {AT_LETTERS})
    secret = {"name": "DEAD_LETTER_URL", "value": "https://example.com"}
    await newcomer.key.post("/api/workflows/secrets", json=secret)
    assert (await newcomer.key.patch(path, json={"status": "active"})).json()["status"] == "active"


async def test_a_workflow_that_is_no_copy_must_have_its_secrets(newcomer: Person) -> None:
    answer = await newcomer.key.post("/api/workflows", json=templates.load_templates()[FAILED].document())
    assert (answer.status_code, wrong(answer)) == (400, {AT_LETTERS})


async def test_a_copy_that_is_wrong_in_another_way_is_refused_with_all_that_is_wrong(
    newcomer: Person,
) -> None:
    body = {"template_id": FAILED, "name": "", "trigger": {"type": "webhok"}}
    answer = await newcomer.key.post("/api/workflows", json=body)
    expected = {("/name", "too_short"), ("/trigger/type", "not_allowed"), AT_LETTERS}
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
    body = {**templates.load_templates()[FAILED].document(), "template_id": None}
    assert wrong(await newcomer.key.post("/api/workflows", json=body)) == {AT_LETTERS}


async def test_a_workflow_cannot_become_a_copy_later(person: Person) -> None:
    path = f"/api/workflows/{(await copy(person, TOR))['id']}"
    answer = await person.key.patch(path, json={"template_id": TOR})
    assert wrong(answer) == {("/template_id", "unknown_field")}


async def test_validating_says_what_copying_would_say(newcomer: Person) -> None:
    answer = await newcomer.key.post("/api/workflows/validate", json={"template_id": FAILED})
    report = answer.json()
    assert (report["valid"], report["errors"]) == (True, []) and AT_LETTERS in doubts(report)


async def test_a_key_that_may_not_look_up_copies_no_lookups(api: Api) -> None:
    person = await api.person(scopes=["workflows"])
    answer = await person.key.post("/api/workflows", json={"template_id": TOR})
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")


async def test_the_audit_log_names_the_template_of_a_copy(database: Database, newcomer: Person) -> None:
    made = await copy(newcomer, FAILED)
    async with database.connection() as connection:
        entry = (await audit.list_entries(connection, newcomer.account.id))[0]
    assert (entry.action, entry.target.id) == ("workflow.created", UUID(made["id"]))
    assert entry.changes == {"status": "draft", "template_id": FAILED}
