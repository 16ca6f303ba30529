"""GET /api/workflows/{id}/export gives a file that POST /api/workflows takes as it is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from language.definition import MAX_DEFINITION_BYTES, Status
from language.validation.definition import Report
from models.automations.definitions import validate, validate_text
from models.automations.exporting import file_name, write_document
from tests.api_server import Api, Person
from tests.automations.workflows import create, problem, wrong
from tests.engine.definitions import definitions

WHOLE: dict[str, Any] = {
    "name": "Bücher / \"alles\"",
    "description": "für später 🎉",
    "status": "paused",
    "trigger": {"type": "webhook", "dedupe": "trigger.id"},
    "concurrency": {"limit": 2, "on_limit": "skip"},
    "agents": False,
    "input_schema": {"type": "object", "properties": {"b": {"type": "number"}, "a": {"maximum": 1e-7}}},
    "steps": [
        {"id": "a", "type": "condition", "config": {"expression": "trigger.x", "else": ["b"]}, "name": "A"},
        {
            "id": "b", "type": "transform", "needs": ["a"],
            "config": {"mapping": {"z": "trigger.a", "a": "'x'"}},
        },
        {
            "id": "c", "type": "webhook", "needs": [], "retry": {"max_attempts": 2, "initial_seconds": 3},
            "config": {
                "url": "https://example.com/{{ trigger.x }}", "timeout": 5, "success": [200, "3xx"],
                "headers": {"X-Key": "{{ secrets.TOKEN }}"}, "body": {"n": [None, 1.5, 2**53, "é"]},
            },
        },
        {"id": "d", "type": "delay", "config": {"days": 1}, "on_error": "continue", "if": "trigger.late"},
        {"id": "approval", "type": "wait", "config": {"input_schema": {"type": "object"}}},
        {"id": "once", "type": "remember", "config": {"key": "{{ trigger.id }}", "ttl": 60}},
        {"id": "e", "type": "ip_lookup", "config": {"field": "trigger.ip", "fields": ["location"]}},
    ],
}  # fmt: skip


@pytest.fixture
async def person(api: Api) -> Person:
    """Somebody who has the secret."""
    made = await api.person()
    await made.key.post("/api/workflows/secrets", json={"name": "TOKEN", "value": "canary-value"})
    return made


async def test_a_file_makes_the_same_workflow_again(person: Person) -> None:
    made = await create(person, **WHOLE)
    exported = await person.key.get(f"/api/workflows/{made['id']}/export")
    assert exported.headers["content-type"] == "application/json"
    assert exported.headers["content-disposition"] == 'attachment; filename="Bucher-alles.json"'
    headers = {"content-type": "application/json"}
    imported = await person.key.post("/api/workflows", content=exported.content, headers=headers)
    assert imported.status_code == 201, imported.text
    assert {name: imported.json()[name] for name in WHOLE} == {name: made[name] for name in WHOLE}
    again = await person.key.get(f"/api/workflows/{imported.json()['id']}/export")
    assert again.content == exported.content


async def test_a_file_has_what_a_client_can_set_and_no_value_of_a_secret(person: Person) -> None:
    made = await create(person, **WHOLE)
    exported = await person.key.get(f"/api/workflows/{made['id']}/export")
    assert exported.json().keys() == WHOLE.keys()
    assert "canary" not in exported.text


async def test_a_file_is_valid_on_the_command_line(person: Person) -> None:
    made = await create(person, **WHOLE)
    exported = await person.key.get(f"/api/workflows/{made['id']}/export")
    report = validate_text(exported.content)
    assert (report.errors, report.status) == ([], "paused")


async def test_what_a_file_needs_and_an_account_lacks_is_named(api: Api, person: Person) -> None:
    alarm = await create(person, trigger={"type": "manual"})
    made = await create(person, **WHOLE, on_failure={"workflow_id": alarm["id"]})
    exported = await person.key.get(f"/api/workflows/{made['id']}/export")
    other = await api.person()
    answer = await other.key.post("/api/workflows", json=exported.json())
    assert wrong(answer) == {
        ("/steps/2/config/headers/X-Key", "unknown_secret"), ("/on_failure/workflow_id", "unknown_workflow"),
    }  # fmt: skip


async def test_a_deleted_workflow_is_not_exported(person: Person) -> None:
    made = await create(person)
    await person.key.delete(f"/api/workflows/{made['id']}")
    assert problem(await person.key.get(f"/api/workflows/{made['id']}/export")) == (404, "not_found")


def read(file: bytes) -> tuple[dict[str, Any], Report]:
    report = validate(orjson.loads(file), None)
    assert report.definition is not None, report.errors
    return report.definition.model_dump(mode="json", exclude_unset=True), report


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text("aü🎉\n\"\\{}", max_size=9)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(
    document=definitions(),
    fields=st.fixed_dictionaries({}, optional={
        "description": st.none() | st.text("aü🎉\n\"", max_size=9),
        "input_schema": st.none() | st.just({"enum": [1, "b"]}),
        "concurrency": st.none() | st.fixed_dictionaries({"limit": st.integers(1, 10)}),
        "agents": st.booleans(),
    }),
    condition=st.none() | st.just("trigger.n"),
    status=st.sampled_from(["active", "paused", "draft"]),
    body=JSON,
)  # fmt: skip
def test_any_definition_comes_back_as_it_was(
    document: dict[str, Any], fields: dict[str, Any], condition: str | None, status: Status, body: Any
) -> None:
    for step in document["steps"]:
        step |= {} if condition is None else {"if": condition}
        if step["type"] == "webhook":
            # A text could be a template that reads what is not there.
            step["config"] |= {"body": orjson.loads(orjson.dumps(body).replace(b"{{", b"{ {")), "timeout": 3}
    stored, _ = read(write_document(document | fields, status))
    file = write_document(stored, status)
    again, report = read(file)
    assert (again, report.status) == (stored, status)
    assert write_document(again, report.status) == file


def test_the_file_of_the_largest_definition_can_be_sent() -> None:
    step: dict[str, Any] = {
        "id": "a",
        "type": "webhook",
        "config": {"url": "https://example.com", "body": ""},
    }
    definition: dict[str, Any] = {"name": "n", "steps": [step]}
    step["config"]["body"] = "x" * (MAX_DEFINITION_BYTES - len(orjson.dumps(definition)))
    assert read(write_document(definition, "active"))[0] == definition


def test_a_file_that_would_be_too_long_in_lines_is_on_one() -> None:
    deep: Any = []
    for _ in range(90):
        deep = [deep]
    definition = {"name": "n", "steps": [{"id": "a", "body": [deep] * 100}]}
    file = write_document(definition, "active")
    assert b"\n" not in file and orjson.loads(file) == definition | {"status": "active"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Tell sales", "Tell-sales"),
        ("../../etc/passwd", "etc-passwd"),
        ('a"; filename="b\r\nX: y', "a-filename-b-X-y"),
        ("東京", "workflow"),
        ("x" * 200, "x" * 100),
    ],
    ids=["spaces", "a path", "another header", "no Latin", "too long"],
)
def test_the_name_of_a_file_is_safe(name: str, expected: str) -> None:
    assert file_name(name) == expected
