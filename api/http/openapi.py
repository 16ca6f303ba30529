"""OpenAPI as it is: for each operation exactly the statuses it gives, with problem documents for errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from api.deps import AGENT_PREFIX
from api.http.errors import MEDIA_TYPE, ProblemDocument

_REFERENCE = "#/components/schemas/"
_RETRY_AFTER = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}}
_REQUEST_ID = {"X-Request-Id": {"description": "names the request in the log", "schema": {"type": "string"}}}

Operation = dict[str, Any]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of a route: the statuses that its own rules give, beside those of every route like it.

    Of themselves come: 400, 500 and under /api 503; 401 and 403 where a credential is needed; 404 where
    the path has an id; 413 and 415 where there is a body; 409 and 422 with an Idempotency-Key.
    """
    return {status: {"description": HTTPStatus(status).phrase} for status in statuses}


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """FastAPI's document, completed in place."""
    schemas: dict[str, Any] = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem = ProblemDocument.model_json_schema(ref_template=_REFERENCE + "{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    schemes = document["components"].get("securitySchemes")
    if schemes:
        schemes["apiKey"] = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(path, operation)
    return document


def _complete(path: str, operation: Operation) -> None:
    if operation.get("security"):
        scopes: list[str] = next(iter(operation["security"][0].values()))
        operation["security"] = [{"bearer": scopes}, {"apiKey": scopes}]
    responses: dict[str, Any] = operation["responses"]
    content = responses.get("422", {}).get("content", {})
    if content.get("application/json", {}).get("schema", {}).get("$ref", "").endswith("HTTPValidationError"):
        del responses["422"]
    for status in _implied(path, operation):
        responses.setdefault(str(status), {"description": HTTPStatus(status).phrase})
    for status, response in responses.items():
        if status >= "400" and "content" not in response:
            schema = {"$ref": f"{_REFERENCE}Problem"}
            response["content"] = {MEDIA_TYPE: {"schema": schema}}
        headers = response.setdefault("headers", {})
        headers.update(_REQUEST_ID, **(_RETRY_AFTER if status in ("429", "503") else {}))
    operation["responses"] = dict(sorted(responses.items()))


def _implied(path: str, operation: Operation) -> set[int]:
    parameters = operation.get("parameters", [])
    statuses = {400, 500}
    if path.startswith("/api/"):
        statuses.add(503)
    if security := operation.get("security"):
        statuses.add(401)
        if any(security[0].values()) or path.startswith(AGENT_PREFIX):
            statuses.add(403)
    if any(parameter["in"] == "path" for parameter in parameters):
        statuses.add(404)
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        statuses |= {413, 415}
    if any(p["in"] == "header" and p["name"] == "Idempotency-Key" for p in parameters):
        statuses |= {409, 422}
    return statuses


class Application(FastAPI):
    """FastAPI whose OpenAPI document tells the whole truth."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if not self.openapi_schema:
            self.openapi_schema = completed(super().openapi())
        return self.openapi_schema
