"""Runs are found by values of their events, at the paths that a workflow names in `search`."""

from __future__ import annotations

from typing import Any

import pytest

from database import Database
from language.search import MAX_LENGTH, find_values
from models.runs import search_values
from tests.api_server import Api, Person
from tests.automations.engine import transform, until
from tests.automations.families import ended, finish, runs_of
from tests.automations.workflows import create, post, problem, wrong

PATHS = ["trigger.customer.email", "trigger.order"]
SHAPE = transform("shape", "trigger")


async def begin(person: Person, workflow: dict[str, Any], event: Any) -> str:
    accepted = await person.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": event})
    assert accepted.status_code == 202, accepted.text
    return accepted.json()["run_id"]


async def found(person: Person, q: str, **query: Any) -> list[str]:
    answer = await person.key.get("/api/workflows/runs", params={"q": q, **query})
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] is None
    return [run["id"] for run in answer.json()["runs"]]


async def test_a_run_is_found_by_each_value_whole_or_by_its_beginning(person: Person) -> None:
    workflow = await create(person, steps=[SHAPE], search=PATHS)
    ada = await begin(person, workflow, {"customer": {"email": " Ada@Example.com"}, "order": 4711})
    bob = await begin(person, workflow, {"customer": {"email": "bob@example.com"}, "order": "4712"})
    assert await found(person, "ada@example.com") == [ada]
    assert await found(person, "ADA@example.com ") == [ada]
    assert await found(person, "4711") == [ada]
    assert await found(person, "471*") == [bob, ada]
    assert await found(person, "471") == await found(person, "example.com") == []


async def test_it_is_asked_beside_other_filters_and_page_by_page(api: Api, person: Person) -> None:
    workflow = await create(person, steps=[SHAPE], search=["trigger.order"])
    other = await create(person, steps=[SHAPE], search=["trigger.order"])
    ids = [await begin(person, workflow, {"order": "x"}) for _ in range(3)]
    beside = await begin(person, other, {"order": "x"})
    assert await found(person, "x") == [beside, *reversed(ids)]
    assert await found(person, "x", workflow_id=workflow["id"]) == ids[::-1]
    assert await found(person, "x", workflow_id=other["id"], status="queued") == [beside]
    assert await found(person, "x", status="completed") == []
    query: dict[str, Any] = {"q": "x*", "limit": 3}
    page = (await person.key.get("/api/workflows/runs", params=query)).json()
    query["cursor"] = page["next_cursor"]
    rest = (await person.key.get("/api/workflows/runs", params=query)).json()
    assert [run["id"] for run in page["runs"] + rest["runs"]] == [beside, *reversed(ids)]
    assert rest["next_cursor"] is None
    assert await found(await api.person(), "x") == []


async def test_a_posted_event_is_indexed_once_however_often_it_comes(api: Api, person: Person) -> None:
    workflow = await create(person, steps=[SHAPE], search=["trigger.order"])
    headers = {"Idempotency-Key": "once"}
    first, again = [
        (await post(api, workflow["webhook_url"], json={"order": "twice"}, headers=headers)).json()
        for _ in range(2)
    ]
    assert first["run_id"] == again["run_id"]
    assert await found(person, "twice") == [first["run_id"]]


async def test_a_retry_and_the_handler_of_a_failure_are_found_too(person: Person, worker: None) -> None:
    handler = await create(person, steps=[SHAPE], search=["trigger.input.order"])
    failing = await create(
        person, steps=[transform("bad", "abs(trigger.order)")], search=["trigger.order"],
        on_failure={"workflow_id": handler["id"]},
    )  # fmt: skip
    failed = await finish(person, failing, {"order": "lost"})

    async def handled() -> list[Any]:
        return [run for run in await runs_of(person, handler) if run["parent_run_id"] == failed["id"]]

    [run] = await until(handled)
    retried = (await person.key.post(f"/api/workflows/runs/{failed['id']}/retry", json={})).json()["run_id"]
    await ended(person, retried)
    assert {failed["id"], run["id"], retried} <= set(await found(person, "lost"))


async def test_too_many_runs_with_a_beginning_ask_for_more_of_it(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_values, "MOST_FOUND", 2)
    workflow = await create(person, steps=[SHAPE], search=["trigger.order"])
    ids = [await begin(person, workflow, {"order": f"no {number}"}) for number in range(3)]
    refused = await person.key.get("/api/workflows/runs", params={"q": "no*"})
    assert problem(refused) == (400, "invalid_input")
    [error] = refused.json()["errors"]
    assert (error["parameter"], error["code"]) == ("q", "out_of_range") and "more of its" in error["message"]
    assert await found(person, "no 2*") == [ids[2]]


VALUES = {
    "a text, without regard to case and spaces": ({"a": " Ünïcode\u00df "}, ["ünïcodess"]),
    "a number": ({"a": 4711}, ["4711"]),
    "true": ({"a": True}, ["true"]),
    "nothing where a part is missing": ({"b": 1}, []),
    "nothing of null": ({"a": None}, []),
    "nothing of an empty text": ({"a": " "}, []),
    "nothing of an object": ({"a": {"b": 1}}, []),
    "nothing of an array": ({"a": [1]}, []),
    "nothing of what is too long": ({"a": "x" * (MAX_LENGTH + 1)}, []),
    "nothing with a NUL": ({"a": "x\0"}, []),
    "nothing of an event that is no object": ([1], []),
}


@pytest.mark.parametrize(("event", "values"), VALUES.values(), ids=VALUES.keys())
def test_the_index_has(event: Any, values: list[str]) -> None:
    assert find_values(["trigger.a"], event) == values


def test_two_paths_with_one_value_are_one() -> None:
    assert find_values(["trigger.a", "trigger.b", "trigger.c.d"], {"a": "x", "b": "X", "c": {"d": 2}}) == [
        "x",
        "2",
    ]


PATHS_REFUSED = {
    "another root": "run.id", "no name": "trigger", "an index": "trigger.items[0]", "spaces": "trigger. a",
    "a call": "length(trigger.a)", "a digit first": "trigger.1", "an empty one": "", "a line": "trigger.a\n",
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS_REFUSED.values(), ids=PATHS_REFUSED.keys())
async def test_a_path_is_refused(person: Person, path: str) -> None:
    body = {"name": "w", "steps": [SHAPE], "search": ["trigger.a", path]}
    refused = await person.key.post("/api/workflows", json=body)
    assert refused.status_code == 400 and wrong(refused) == {("/search/1", "invalid_format")}


async def test_a_workflow_has_three_short_paths_at_most(person: Person) -> None:
    body = {"name": "w", "steps": [SHAPE], "search": [f"trigger.{name}" for name in "abcd"]}
    refused = await person.key.post("/api/workflows", json=body)
    assert wrong(refused) == {("/search", "too_many_items")}
    refused = await person.key.post("/api/workflows", json=body | {"search": ["trigger." + "a" * MAX_LENGTH]})
    assert wrong(refused) == {("/search/0", "too_long")}


QUERIES = {"nothing but a star": "*", "nothing but spaces": " ", "a NUL": "a\0", "too long": "x" * 202}


@pytest.mark.parametrize("q", QUERIES.values(), ids=QUERIES.keys())
async def test_a_question_is_refused(person: Person, q: str) -> None:
    refused = await person.key.get("/api/workflows/runs", params={"q": q})
    assert problem(refused) == (400, "invalid_input")
    assert {error["parameter"] for error in refused.json()["errors"]} == {"q"}


async def test_the_paths_are_part_of_a_version(person: Person, database: Database) -> None:
    workflow = await create(person, steps=[SHAPE])
    assert workflow["search"] == []
    changed = await person.key.patch(f"/api/workflows/{workflow['id']}", json={"search": ["trigger.a"]})
    assert (changed.json()["search"], changed.json()["version"]) == (["trigger.a"], 2)
    versions = (await person.key.get(f"/api/workflows/{workflow['id']}/versions")).json()["versions"]
    assert versions[0]["changes"] == ["search"]
    old = (await person.key.get(f"/api/workflows/{workflow['id']}/versions/1")).json()
    assert old["search"] == []
