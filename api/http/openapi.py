"""The OpenAPI document: for each operation its statuses and codes, in a form that generators read well.

It completes FastAPI's document, so that routes declare only their own parts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from api.deps import AGENT_PREFIX, SESSION_SCHEME
from api.http.catalogue import CATALOGUE, example_of
from api.http.errors import MEDIA_TYPE, ProblemDocument
from api.http.middleware import RequestMiddleware
from api.http.openapi_codes import list_codes
from api.http.openapi_examples import show
from api.http.openapi_texts import introduce, summary_of
from api.http.openapi_webhooks import webhook_operations
from api.http.query import is_checked

_REFERENCE = "#/components/schemas/"
_RETRY_AFTER = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}}
_REQUEST_ID = {"X-Request-Id": {"description": "names the request in the log", "schema": {"type": "string"}}}

_OF_BODIES = (
    "invalid_input", "body_too_slow", "body_too_large", "unsupported_media_type",
    "unsupported_content_encoding",
)  # fmt: skip
_OF_JSON_BODIES = ("invalid_json", "invalid_text", "number_out_of_range", "too_deep")
_OF_IDEMPOTENCY_KEYS = ("invalid_idempotency_key", "idempotency_in_progress", "idempotency_key_reused")

_SURE = {"credits", "cached", "partial", "providers", "sources", "conflicts"}

Operation = dict[str, Any]


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route for the codes of its own rules.

    Added automatically are the codes of credentials, scopes, JSON bodies, parameters, ids in the path and
    Idempotency-Keys; `unknown_host`, `internal_error`, `work_lost` and, under /api, `database_unavailable`
    and `too_busy`.

    Raises:
        LookupError: a code is not among the `answers` of errors.toml.
    """
    responses: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        entry = CATALOGUE.get(code)
        if entry is None or entry.status is None:
            raise LookupError(f"problems() takes codes of [answers.…] in api/http/errors.toml, not {code!r}")
        response = responses.setdefault(
            entry.status, {"description": "", "content": {MEDIA_TYPE: {"examples": {}}}}
        )
        response["content"][MEDIA_TYPE]["examples"][code] = {"$ref": f"#/components/examples/{code}"}
    return responses


def complete_document(document: dict[str, Any]) -> dict[str, Any]:
    """Complete FastAPI's document in place, and return it."""
    components: dict[str, Any] = document.setdefault("components", {})
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem = ProblemDocument.model_json_schema(ref_template=_REFERENCE + "{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    list_codes(schemas)
    if "securitySchemes" in components:
        components["securitySchemes"]["apiKey"] = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    address = document["servers"][0]["url"]
    components["examples"] = {
        code: {"summary": entry.cause, "value": example_of(entry, address)}
        for code, entry in CATALOGUE.items()
        if entry.status is not None
    }
    _tell_pruned(schemas)
    for schema in schemas.values():
        for described in schema.get("properties", {}).values():
            _tell_default(described)
    for path, _, operation in operations(document):
        _complete(path, operation, schemas)
    for _, _, operation in operations(document):
        show(document, operation["operationId"], operation)
    _tell_mounts_apart(document)
    introduce(document)
    document["webhooks"] = webhook_operations()
    _drop_unused_examples(document)
    return document


def _drop_unused_examples(document: dict[str, Any]) -> None:
    """Remove the codes that no operation lists: `/errors/<code>` explains those, too."""
    used = set(re.findall(rb'"#/components/examples/([^"]+)"', orjson.dumps(document)))
    examples: dict[str, Any] = document["components"]["examples"]
    document["components"]["examples"] = {name: examples[name] for name in examples if name.encode() in used}


def _tell_pruned(schemas: dict[str, dict[str, Any]]) -> None:
    """Mark the fields that `?fields=` may remove from an answer as optional, also within blocks."""
    for schema in [one for one in schemas.values() if _SURE <= one.get("properties", {}).keys()]:
        echo = next(iter(schema["properties"]))
        schema["required"] = [name for name in schema["required"] if name in {echo, *_SURE}]
        blocks = [schema["properties"][name] for name in schema["properties"].keys() - _SURE - {"verdict"}]
        while blocks:
            block = blocks.pop()
            for one in (block, *block.get("anyOf", [])):
                if "$ref" in one:
                    inner = schemas[one["$ref"].removeprefix(_REFERENCE)]
                    inner.pop("required", None)
                    blocks.extend(inner["properties"].values())


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    """Yield path, method and operation of a document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _tell_default(described: dict[str, Any]) -> None:
    """Describe a property's default in words, because generators take a `default` as always present."""
    default = described.pop("default", None)
    if default is not None:
        text = default if isinstance(default, str) else orjson.dumps(default).decode()
        described["description"] = f"{described.get('description', '')} Default: {text}.".strip()


def _complete(path: str, operation: Operation, schemas: dict[str, Any]) -> None:
    _state_security(operation)
    operation["summary"] = summary_of(operation["operationId"])
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            parameter.setdefault("description", _of_path(parameter["name"]))
    responses: dict[str, Any] = operation["responses"]
    content = responses.get("422", {}).get("content", {})
    if content.get("application/json", {}).get("schema", {}).get("$ref", "").endswith("HTTPValidationError"):
        del responses["422"]
    for status, implied in problems(*_list_implied_codes(path, operation)).items():
        response = responses.setdefault(str(status), implied)
        examples = response.get("content", {}).get(MEDIA_TYPE, {}).get("examples")
        if examples is not None:
            examples.update(implied["content"][MEDIA_TYPE]["examples"])
    for status, response in responses.items():
        refused = response.get("content", {}).get(MEDIA_TYPE)
        if refused is not None:
            refused["schema"] = {"$ref": f"{_REFERENCE}Problem"}
            refused["examples"] = dict(sorted(refused["examples"].items()))
            response["description"] = f"{HTTPStatus(int(status)).phrase}: {', '.join(refused['examples'])}"
        if response["description"] == "Successful Response":
            response["description"] = _describe_answer(response, schemas)
        headers = response.setdefault("headers", {})
        headers.update(_REQUEST_ID, **(_RETRY_AFTER if status in ("429", "503") else {}))
    operation["responses"] = dict(sorted(responses.items()))


def _describe_answer(response: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return a description of an answer: the first sentence about its object."""
    for content in response.get("content", {}).values():
        name = content.get("schema", {}).get("$ref", "").removeprefix(_REFERENCE)
        if name and "description" in schemas[name]:
            return f"{schemas[name]['description'].split('. ')[0].split(chr(10))[0].rstrip('.')}."
        return "The answer."
    return "It is done; there is nothing more to say."


def _state_security(operation: Operation) -> None:
    """Declare credentials as `bearer` or `apiKey`; without any the list is empty, not absent."""
    needed: list[dict[str, list[str]]] = operation.setdefault("security", [])
    if needed and SESSION_SCHEME not in needed[0]:
        scopes = next(iter(needed[0].values()))
        operation["security"] = [{"bearer": scopes}, {"apiKey": scopes}]


def _of_path(name: str) -> str:
    noun = name.removesuffix("_id")
    if name == "id":
        return "Its id, a UUID."
    return f"The {noun.replace('_', ' ')}'s id, a UUID." if noun != name else f"The {name}."


def _list_implied_codes(path: str, operation: Operation) -> Iterator[str]:
    yield from ("unknown_host", "internal_error", "work_lost")
    if path.startswith("/api/"):
        yield from ("database_unavailable", "too_busy")
    if is_checked(path):
        yield "unknown_parameter"
    parameters = operation.get("parameters", [])
    if security := operation["security"]:
        yield from ("not_authenticated", "invalid_credentials", "conflicting_credentials")
        yield "cross_site_request"
        if any(next(iter(security[0].values()))):
            yield "insufficient_scope"
        if SESSION_SCHEME in security[0]:
            yield "session_required"
        if path.startswith(AGENT_PREFIX):
            yield "api_key_required"
    if any(parameter["in"] == "path" for parameter in parameters):
        yield "not_found"
    if any(parameter["in"] != "path" for parameter in parameters):
        yield "invalid_input"
    if "requestBody" in operation:
        yield from _OF_BODIES
        if "application/json" in operation["requestBody"]["content"]:
            yield from _OF_JSON_BODIES
    if security and any(parameter["name"] == "Idempotency-Key" for parameter in parameters):
        yield from _OF_IDEMPOTENCY_KEYS


def _tell_mounts_apart(document: dict[str, Any]) -> None:
    """Give the further paths and methods of a handler names of their own: the shortest path keeps its name.

    `PATCH /api/monitors/{id}` is `change_monitor`, then `PATCH /api/agent/monitors/{id}` is
    `change_monitor_agent`, and with PUT they are `change_monitor_put` and `change_monitor_agent_put`.
    """
    shortest: dict[str, tuple[str, str]] = {}
    for path, method, operation in sorted(operations(document), key=lambda found: found[0].count("/")):
        name = operation["operationId"]
        first, usual = shortest.setdefault(name, (path, method))
        if (path, method) != shortest[name]:
            further = [part for part in path.split("/") if part not in first.split("/") and "{" not in part]
            added = [*further, method.upper()] if method != usual else further
            operation["operationId"] = "_".join([name, *added]).replace("-", "_").lower()
            operation["summary"] += f" ({', '.join(added)})"
            operation["description"] += f"\n\nThe same as `{usual.upper()} {first}`."
            operation["x-same-as"] = name


def _name_of(route: APIRoute) -> str:
    return route.name


class Application(FastAPI):
    """FastAPI with a complete OpenAPI document, and the `RequestMiddleware` as its outermost layer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(generate_unique_id_function=_name_of, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, without FastAPI's call of OpenTelemetry, which is not set up here."""
        await Starlette.__call__(self, scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Build the layers without FastAPI's outer ones, whose work the `RequestMiddleware` does."""
        layer: Any = super().build_middleware_stack()
        while not isinstance(layer, RequestMiddleware):
            layer = layer.app
        return layer

    def openapi(self) -> dict[str, Any]:
        """Return the document, made once."""
        if not self.openapi_schema:
            with warnings.catch_warnings():
                # Handlers with several paths get names of their own when the document is completed.
                warnings.filterwarnings("ignore", "Duplicate Operation ID", UserWarning)
                self.openapi_schema = complete_document(super().openapi())
        return self.openapi_schema
