"""What every operation and every schema of the OpenAPI document has, those of today and those to come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from api.app import create_app
from api.http import openapi_texts
from api.http.catalogue import CATALOGUE
from api.http.openapi import Application, operations, problems
from models.lookups.lookups import LookupAnswer
from providers.registry import KINDS
from settings import Settings

PROBLEM = "application/problem+json"
# Fields of answers that are absent where there is nothing to say; all others are always there.
SOMETIMES_ABSENT = {
    "BreachAnswer": {"services", "exposed_data"},
    "FieldProblem": {"parameter", "row", "column"},
    "ListedRun": {"input", "output", "steps", "omitted", "takeovers"},
    "Mention": {"leak", "chat", "irc", "paste", "forum", "market", "ips", "cves"},
    "Problem": {"errors"},
    "ProviderReport": {"fetched_at", "cached", "stale", "retry_after", "server", "detail", "failed"},
    "RunView": {"takeovers"},
    "StepView": {"mocked"},
    "WorkflowView": {"omitted"},
}


@pytest.fixture(scope="module")
def app(settings: Settings) -> FastAPI:
    return create_app(settings)


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


@pytest.fixture
def schemas(document: dict[str, Any]) -> dict[str, Any]:
    return document["components"]["schemas"]


def within(value: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object in a document, with its place."""
    if isinstance(value, dict):
        yield place, value
        for name, inner in value.items():
            yield from within(inner, f"{place}/{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from within(inner, f"{place}/{index}")


def named_in(value: Any, schemas: dict[str, Any]) -> set[str]:
    """The schemas that a part of the document leads to."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        for _, inner in within(waiting.pop()):
            name = str(inner.get("$ref", "")).partition("#/components/schemas/")[2]
            if name and name not in found:
                found.add(name)
                waiting.append(schemas[name])
    return found


def test_an_operation_is_called_as_its_function_is(app: FastAPI, document: dict[str, Any]) -> None:
    functions = {
        (str(context.path).replace(":path}", "}"), method.lower()): context.original_route.name
        for context in iter_route_contexts(app.routes)
        if isinstance(context.original_route, APIRoute)
        for method in context.methods or ()
    }
    ids = {(path, method): operation["operationId"] for path, method, operation in operations(document)}
    assert len(set(ids.values())) == len(ids)
    first = {name: place for place, name in ids.items() if functions[place] == name}
    for place, name in ids.items():
        function = functions[place]
        assert name == function or (name.startswith(f"{function}_") and function in first), (place, name)


def test_further_mounts_of_a_handler_are_named_by_what_their_paths_add() -> None:
    router = APIRouter(tags=["lists"])

    @router.get("/api/agent/lists/{id}/bulk-targets")
    @router.get("/api/agent/lists/{id}")
    @router.put("/api/agent/lists/{id}")
    @router.put("/api/lists/{id}")
    @router.get("/api/lists/{id}")
    async def get_list(id: str) -> None:
        """The list."""

    app = Application(servers=[{"url": "http://localhost"}])
    app.include_router(router)
    ids = {(path, method): operation["operationId"] for path, method, operation in operations(app.openapi())}
    assert ids == {
        ("/api/lists/{id}", "get"): "get_list",
        ("/api/lists/{id}", "put"): "get_list_put",
        ("/api/agent/lists/{id}", "get"): "get_list_agent",
        ("/api/agent/lists/{id}", "put"): "get_list_agent_put",
        ("/api/agent/lists/{id}/bulk-targets", "get"): "get_list_agent_bulk_targets",
    }


def test_a_schema_has_a_title_of_its_own_and_it_is_its_name(schemas: dict[str, Any]) -> None:
    """Two classes of one name get long names, of which generators make the same one again: rename one."""
    wrong = {name: schema.get("title") for name, schema in schemas.items() if schema.get("title") != name}
    assert not wrong


def test_every_schema_and_every_property_is_described(schemas: dict[str, Any]) -> None:
    """A description that says the same as the property's own schema is left out by Pydantic."""
    bare = [name for name, schema in schemas.items() if not schema.get("description")]
    bare += [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, described in schema.get("properties", {}).items()
        if not described.get("description")
    ]
    assert not bare


def test_every_operation_and_every_parameter_is_described(document: dict[str, Any]) -> None:
    assert all(operation["summary"] and operation["description"] for _, _, operation in operations(document))
    assert not [
        f"{operation['operationId']}: {parameter['name']}"
        for _, _, operation in operations(document)
        for parameter in operation.get("parameters", [])
        if not parameter.get("description")
    ]


def test_every_operation_says_who_may_call_it(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"].keys()
    for path, method, operation in operations(document):
        needed = operation["security"]  # empty, not absent, where nothing is needed
        assert {scheme for one in needed for scheme in one} <= schemes
        assert needed or not path.startswith("/api/") or "token" in path or path.startswith("/api/auth/"), (
            method,
            path,
        )


def test_an_operation_lists_each_error_with_its_codes(document: dict[str, Any]) -> None:
    examples = document["components"]["examples"]
    for _, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status >= "400" and PROBLEM in answer["content"]:
                content = answer["content"][PROBLEM]
                assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
                assert content["examples"], (operation["operationId"], status)
                for code, example in content["examples"].items():
                    assert example == {"$ref": f"#/components/examples/{code}"}
                    assert examples[code]["value"]["status"] == int(status)
                    assert code in answer["description"]


@pytest.mark.parametrize("code", [404, "no_such_code", "http_status"])
def test_a_route_can_only_name_codes_that_an_answer_may_have(code: Any) -> None:
    with pytest.raises(LookupError, match=r"errors\.toml"):
        problems(code)


def test_the_document_says_where_the_service_is(settings: Settings) -> None:
    app = create_app(settings.model_copy(update={"public_url": "https://api.example.com/"}))
    document = app.openapi()
    assert document["servers"] == [{"url": "https://api.example.com"}]
    shown = document["components"]["examples"]["not_found"]["value"]["type"]
    assert shown == "https://api.example.com/errors/not_found"


def test_no_property_has_a_default(schemas: dict[str, Any]) -> None:
    """One generator drops models for it (unions), another takes such fields of requests for required."""
    assert not [place for place, schema in within(schemas) if "default" in schema]


def test_the_default_of_a_property_is_told_in_words(schemas: dict[str, Any]) -> None:
    assert schemas["DarkwebQuery"]["properties"]["offset"]["description"].endswith("Default: 0.")


def test_what_an_answer_always_has_is_required(document: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Give the field no default, or let its model be a `models.views.View`; or list it above."""
    answered = named_in([operation["responses"] for _, _, operation in operations(document)], schemas)
    optional = {
        name: set(schemas[name].get("properties", {})) - set(schemas[name].get("required", []))
        for name in answered
    }
    pruned = set(prunable(schemas))
    sometimes = {name: fields for name, fields in optional.items() if fields and name not in pruned}
    assert sometimes == {name: fields for name, fields in SOMETIMES_ABSENT.items() if name not in pruned}


def prunable(schemas: dict[str, Any]) -> Iterator[str]:
    """The answers of lookups, and the blocks in them: `?fields=` leaves out what is not wanted."""
    for name, schema in schemas.items():
        if set(LookupAnswer.model_fields) <= schema.get("properties", {}).keys():
            yield name
            blocks = [schema["properties"][inner] for inner in schema["properties"]]
            yield from (one["$ref"].rpartition("/")[2] for block in blocks for one in _of(block))


def _of(block: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in (block, *block.get("anyOf", [])) if "$ref" in one]


def test_what_no_choice_of_fields_leaves_out_is_required(schemas: dict[str, Any]) -> None:
    sure = set(LookupAnswer.model_fields)
    answers = [one for one in schemas.values() if sure <= one.get("properties", {}).keys()]
    assert len(answers) == len(KINDS) + 1  # a company of a bulk search has a shape of its own
    for schema in answers:
        assert set(schema["required"]) == {next(iter(schema["properties"])), *sure}


def test_no_schema_is_for_requests_and_for_answers(document: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Such a one would get two names, or could not say of a field that only answers always have it."""
    found = [operation for _, _, operation in operations(document)]
    sent = named_in([operation.get("requestBody") for operation in found], schemas)
    assert not sent & named_in([operation["responses"] for operation in found], schemas)


def test_every_body_has_its_media_types_and_schemas(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        body = operation.get("requestBody")
        if body is not None:
            assert all(content.get("schema") for content in body["content"].values()), (method, path)


def test_ingest_says_what_it_takes(document: dict[str, Any]) -> None:
    operation = document["paths"]["/api/workflows/ingest/{token}"]["post"]
    assert operation["requestBody"]["content"].keys() == {
        "application/json", "application/x-www-form-urlencoded", "multipart/form-data",
    }  # fmt: skip
    headers = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "header"}
    assert headers == {
        "Idempotency-Key", "webhook-id", "webhook-timestamp", "webhook-signature", "X-Hub-Signature-256",
        "Stripe-Signature", "X-Slack-Request-Timestamp", "X-Slack-Signature", "X-Signature", "Vedette-Chain",
    }  # fmt: skip
    assert "422" not in operation["responses"]  # other bodies with one key are one event


def test_ingest_says_what_its_senders_are_told(document: dict[str, Any]) -> None:
    responses = document["paths"]["/api/workflows/ingest/{token}"]["post"]["responses"]
    told = {status: responses[status]["content"]["application/json"]["schema"] for status in ("200", "202")}
    names = {status: schema["$ref"].rpartition("/")[2] for status, schema in told.items()}
    assert names == {"200": "RunResult", "202": "RunAccepted"}
    assert all("Idempotent-Replayed" in responses[status]["headers"] for status in told)


def test_every_code_is_listed_where_it_stands(schemas: dict[str, Any]) -> None:
    names = {"answers": "AnswerCode", "fields": "FieldCode", "warnings": "WarningCode", "runs": "RunCode"}
    for place, name in names.items():
        expected = [code for code, entry in CATALOGUE.items() if entry.place == place]
        assert schemas[name]["x-extensible-enum"] == expected
        assert all(f"- `{code}`" in schemas[name]["description"] for code in expected)
    assert schemas["Problem"]["properties"]["code"]["$ref"].endswith("/AnswerCode")
    assert schemas["FieldProblem"]["properties"]["code"]["$ref"].endswith("/FieldCode")


def test_every_tag_is_described_and_stands_in_one_group(document: dict[str, Any]) -> None:
    tags = [tag["name"] for tag in document["tags"]]
    assert all(tag["description"] for tag in document["tags"])
    assert [tag for group in document["x-tagGroups"] for tag in group["tags"]] == tags
    found = [operation["tags"] for _, _, operation in operations(document)]
    assert all(len(one) == 1 for one in found)
    assert list(dict.fromkeys(one[0] for one in found)) == tags  # in this order


def test_summaries_are_short_and_tell_operations_apart(document: dict[str, Any]) -> None:
    summaries = [operation["summary"] for _, _, operation in operations(document)]
    assert max(map(len, summaries)) <= 60
    assert len(set(summaries)) == len(summaries)


def test_every_summary_is_of_an_operation(document: dict[str, Any]) -> None:
    names = {operation["operationId"] for _, _, operation in operations(document)}
    assert not openapi_texts._SUMMARIES.keys() - names  # pyright: ignore[reportPrivateUsage]


def test_the_document_says_whose_it_is(document: dict[str, Any]) -> None:
    assert document["info"].keys() == {"title", "summary", "description", "version", "license", "contact"}
    assert document["info"]["license"] == {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    assert document["externalDocs"]["url"].endswith("/docs/reference")


def test_every_code_that_an_operation_lists_is_an_example_and_no_other(document: dict[str, Any]) -> None:
    answers = {code for code, entry in CATALOGUE.items() if entry.place == "answers"}
    listed = {
        code
        for _, _, operation in operations(document)
        for answer in operation["responses"].values()
        for code in answer.get("content", {}).get(PROBLEM, {}).get("examples", {})
    }
    assert document["components"]["examples"].keys() & answers == listed & answers


def test_the_introduction_says_truly_who_heeds_an_idempotency_key(document: dict[str, Any]) -> None:
    posts = [path["post"] for path in document["paths"].values() if "post" in path]
    heed = ["Idempotency-Key" in [one["name"] for one in post.get("parameters", [])] for post in posts]
    assert any(heed) and not all(heed)
    told = document["info"]["description"].partition("**Repeats**")[2].partition("\n- ")[0]
    assert "with the parameter `Idempotency-Key`" in told and "a POST with" not in told


def test_the_bounds_of_an_idempotency_key_are_stated(document: dict[str, Any]) -> None:
    [key] = [one for one in document["paths"]["/api/bulk-jobs"]["post"]["parameters"] if "Key" in one["name"]]
    [text, _] = key["schema"]["anyOf"]
    assert text == {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
