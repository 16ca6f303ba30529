"""Query strings: a parameter that a path does not take is refused, with the name that was probably meant."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

import pytest

from api.http.openapi import operations
from tests.api_server import Api, Person, openapi_document
from tests.automations.workflows import create, post, problem

DOCUMENT = openapi_document()
OPEN = {
    "/api/workflows/ingest/{token}", "/api/workflows/resume/{token}", "/api/workflows/resume/{token}/form"
}  # fmt: skip
OPERATIONS = [
    (f"{method.upper()} {path}", operation)
    for path, method, operation in operations(DOCUMENT)
    if path.startswith("/api/") and path not in OPEN
]
BY_NAME = pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[name for name, _ in OPERATIONS])


def parameters(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in operation.get("parameters", []) if one["in"] == "query"]


async def codes(person: Person, name: str, query: dict[str, str]) -> set[tuple[str | None, str]]:
    """Return which parameters are refused, and how; the credential is of the kind that the path takes."""
    method, path = name.split(" ")
    path = re.sub(r"\{[^}]+\}", str(uuid4()), path)
    client = person.key if path.startswith("/api/agent/") else person.session
    body = {} if method in ("POST", "PUT", "PATCH") else None
    # The body of a stream of events has no end: only a refusal is read.
    async with client.stream(method, path, params=query, json=body) as answer:
        found = json.loads(await answer.aread()).get("errors", []) if answer.status_code == 400 else []
    return {(one.get("parameter"), one["code"]) for one in found}


@BY_NAME
def test_every_operation_lists_the_refusal(name: str, operation: dict[str, Any]) -> None:
    content = operation["responses"]["400"]["content"]["application/problem+json"]
    assert "unknown_parameter" in content["examples"]


async def test_no_operation_refuses_a_parameter_that_it_lists(person: Person) -> None:
    for name, operation in OPERATIONS:
        query = {one["name"]: "1" for one in parameters(operation)}
        refused = await codes(person, name, query)
        assert not [code for _, code in refused if code == "unknown_parameter"], name


async def test_what_reads_with_nothing_else_wrong_is_refused_for_an_unknown_parameter(api: Api) -> None:
    for name, operation in OPERATIONS:
        needs = [one for one in parameters(operation) if one.get("required")]
        if name.startswith("GET ") and "{" not in name and not needs:
            person = await api.person()
            client = person.key if "/api/agent/" in name else person.session
            refused = await client.get(name.removeprefix("GET "), params={"nonsense": "1"})
            assert problem(refused) == (400, "unknown_parameter"), name


async def test_the_nearest_name_is_told(person: Person) -> None:
    refused = await person.key.get("/api/workflows/runs", params={"stauts": "failed", "limit": "5"})
    assert problem(refused) == (400, "unknown_parameter")
    [error] = refused.json()["errors"]
    assert (error["pointer"], error["parameter"], error["code"]) == ("", "stauts", "unknown_parameter")
    assert error["message"] == "There is no such parameter here. Did you mean status?"


async def test_where_no_name_is_near_all_are_told(person: Person) -> None:
    refused = (await person.key.get("/api/credits/ledger", params={"zzzzzz": "1"})).json()
    assert (
        refused["errors"][0]["message"] == "There is no such parameter here. Parameters are: cursor, limit."
    )
    refused = (await person.key.get("/api/credits", params={"limit": "1"})).json()
    assert refused["errors"][0]["message"] == "There is no such parameter here. This path takes none."


async def test_what_is_wrong_with_known_parameters_is_told_beside(person: Person) -> None:
    refused = await person.key.get("/api/workflows", params={"limit": "x", "stauts": "active"})
    assert problem(refused) == (400, "invalid_input")
    found = {(one["parameter"], one["code"]) for one in refused.json()["errors"]}
    assert ("stauts", "unknown_parameter") in found and "limit" in {name for name, _ in found}


async def test_who_may_not_ask_hears_that_first(api: Api) -> None:
    assert (await api.http.get("/api/workflows", params={"nonsense": "1"})).status_code == 401
    limited = await api.person(scopes=["credits"])
    assert (await limited.key.get("/api/workflows", params={"nonsense": "1"})).status_code == 403


async def test_a_refused_request_does_nothing(person: Person) -> None:
    refused = await person.key.post("/api/workflows", params={"dry": "1"}, json={"name": "w"})
    assert problem(refused) == (400, "unknown_parameter")
    assert (await person.key.get("/api/workflows")).json()["total"] == 0


@pytest.mark.parametrize("query", ["status=active&status=paused", "status=active&", "&", "=1"])
async def test_repeated_and_empty_ones_are_no_unknown_ones(person: Person, query: str) -> None:
    assert (await person.key.get(f"/api/workflows?{query}")).status_code == 200


async def test_the_names_of_very_many_are_not_all_told(person: Person) -> None:
    query = {f"{'x' * 200}{number}": "1" for number in range(100)}
    refused = (await person.key.get("/api/workflows", params=query)).json()["errors"]
    assert len(refused) == 20 and {len(one["parameter"]) for one in refused} == {100}


async def test_the_query_of_an_event_is_data(api: Api, person: Person) -> None:
    made = await create(person)
    accepted = await post(api, made["webhook_url"], params={"anything": "1"}, json={})
    assert accepted.status_code == 202


async def test_a_link_to_a_waiting_step_may_have_parameters_of_others(api: Api) -> None:
    answer = await api.http.post("/api/workflows/resume/none", params={"utm_source": "mail"})
    assert problem(answer) == (404, "not_found")


@pytest.mark.parametrize("name", ["error_code", "step", "q"])
async def test_a_nul_character_is_refused_with_the_name_of_its_parameter(person: Person, name: str) -> None:
    refused = await person.key.get("/api/workflows/runs", params={name: "a\0b"})
    assert problem(refused) == (400, "invalid_input")
    [error] = refused.json()["errors"]
    assert error["parameter"] == name


def _is_integer(parameter: dict[str, Any]) -> bool:
    schema = parameter["schema"]
    return "integer" in [one.get("type") for one in schema.get("anyOf", [schema])]


INTEGERS = [
    (name, parameter["name"])
    for name, operation in OPERATIONS
    for parameter in parameters(operation)
    if _is_integer(parameter)
]


@pytest.mark.parametrize("value", ["1_0", "10.0", "+10", "1e1", "\u0661"])
async def test_an_integer_is_read_in_digits_only(person: Person, value: str) -> None:
    assert len(INTEGERS) > 20
    for name, parameter in INTEGERS:
        assert (parameter, "wrong_type") in await codes(person, name, {parameter: value}), name
