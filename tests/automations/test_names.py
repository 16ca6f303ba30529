"""Definitions name workflows and monitors in place of their ids; ids are what is kept."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.api_server import Api, Person
from tests.automations.families import running_step
from tests.automations.workflows import create, wrong


def unique(word: str) -> str:
    return f"{word} {uuid4().hex[:8]}"


async def test_a_step_names_a_workflow_and_its_id_is_kept(person: Person) -> None:
    child = await create(person, name=unique("child"))
    parent = await create(person, name=unique("parent"), steps=[running_step(child["name"])])
    assert parent["steps"][0]["config"]["workflow_id"] == child["id"]
    renamed = await person.key.patch(f"/api/workflows/{child['id']}", json={"name": unique("other")})
    assert renamed.status_code == 200
    kept = (await person.key.get(f"/api/workflows/{parent['id']}")).json()
    assert kept["steps"][0]["config"]["workflow_id"] == child["id"]


async def test_on_failure_and_a_trigger_take_names_too(person: Person) -> None:
    handler, watch = await create(person, name=unique("handler")), unique("watch")
    body = {"name": watch, "monitor_type": "ip", "targets": ["8.8.8.8"]}
    monitor = (await person.key.post("/api/monitors", json=body)).json()
    workflow = await create(
        person,
        on_failure={"workflow_id": handler["name"]},
        trigger={"type": "monitor_event", "monitor_id": watch},
    )
    assert workflow["on_failure"]["workflow_id"] == handler["id"]
    assert workflow["trigger"]["monitor_id"] == monitor["id"]


async def test_a_change_takes_names_too(person: Person) -> None:
    child, parent = await create(person, name=unique("child")), await create(person)
    answer = await person.key.patch(
        f"/api/workflows/{parent['id']}", json={"steps": [running_step(child["name"])]}
    )
    assert answer.json()["steps"][0]["config"]["workflow_id"] == child["id"]


async def test_a_name_that_several_have_is_refused_with_their_ids(person: Person) -> None:
    name = unique("twice")
    ids = [(await create(person, name=name))["id"] for _ in range(2)]
    answer = await person.key.post("/api/workflows", json={"name": "parent", "steps": [running_step(name)]})
    assert wrong(answer) == {("/steps/0/config/workflow_id", "ambiguous_name")}
    assert all(one in answer.json()["errors"][0]["message"] for one in ids)


async def test_an_id_wins_over_a_name(person: Person) -> None:
    child = await create(person, name=unique("child"))
    await create(person, name=child["id"])
    parent = await create(person, steps=[running_step(child["id"])])
    assert parent["steps"][0]["config"]["workflow_id"] == child["id"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nobody has this name", ("/steps/0/config/workflow_id", "unknown_workflow")),
        ("\0", ("", "invalid_text")),
    ],
)
async def test_a_name_that_nothing_has_is_one_error(
    person: Person, name: str, error: tuple[str, str]
) -> None:
    steps: list[Any] = [running_step(name)]
    answer = await person.key.post("/api/workflows", json={"name": "parent", "steps": steps})
    assert wrong(answer) == {error}
    assert len(answer.json()["errors"]) == 1


async def test_another_accounts_workflow_is_not_found_by_its_name(person: Person, api: Api) -> None:
    theirs = await create(await api.person(), name=unique("theirs"))
    answer = await person.key.post(
        "/api/workflows", json={"name": "parent", "steps": [running_step(theirs["name"])]}
    )
    assert answer.status_code == 400
