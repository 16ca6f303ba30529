"""Problem documents (RFC 9457): all unsuccessful answers, of every layer."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, cast

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.types import Scope
from temporalio.service import RPCError, RPCStatusCode

import logs
from api.context import context_of
from api.http.catalogue import ProblemReport, problem_body
from api.http.validation import field_errors
from api.problems import Problem
from database import AWAY, ConnectionsBusy
from models import errors, idempotency
from models.lookups.lookups import AllProvidersFailed, NoProvider
from services.dry_runs import DryRunInProgress
from services.event_checks import ChecksWaiting
from services.save_places import SavesInProgress
from services.signatures import InvalidSignature

MEDIA_TYPE = "application/problem+json"

_log = logs.get(__name__)
_TOKEN_IN_PATH = re.compile(r"(/(?:ingest|resume)/)[^/?]+")
_ENGINE_AWAY = (
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.CANCELLED,
)

_STATUS_OF: dict[type[errors.DomainError], int] = {
    errors.Invalid: 400,
    errors.Unauthenticated: 401,
    InvalidSignature: 401,
    errors.InsufficientCredits: 402,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.VersionMismatch: 412,
    idempotency.KeyReused: 422,
    errors.RateLimited: 429,
    DryRunInProgress: 429,
    ChecksWaiting: 429,
    SavesInProgress: 429,
    errors.TooManyStreams: 429,
    AllProvidersFailed: 502,
    NoProvider: 503,
    errors.Unavailable: 503,
}
_CODE_OF = {
    400: "invalid_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}


class FieldProblem(BaseModel):
    """One thing wrong with the input."""

    pointer: str = Field(description="JSON pointer into the body; empty for the body as a whole.")
    code: str = Field(description="What is wrong, for programs: stable, snake_case.")
    message: str = Field(description="What is wrong and what would be right.")
    parameter: str | None = Field(None, description="The query parameter or header, if it is not the body.")
    row: int | None = Field(None, description="For CSV: the row, the header being row 1.")
    column: str | None = Field(None, description="For CSV: the column.")


class ProblemDocument(BaseModel):
    """A problem (RFC 9457), with two members for programs: `code` and `request_id`."""

    model_config = ConfigDict(title="Problem", extra="allow")

    type: str = Field(description="The URL of the code's page: cause, remedy, example.")
    title: str = Field(description="The phrase of the status.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, for people.")
    instance: str = Field(description="The path of the request.")
    code: str = Field(description="What is wrong, for programs: stable, snake_case.")
    message: str = Field(description="The same text as `detail`.")
    request_id: str = Field(description="Names the request in the service's log.")
    errors: list[FieldProblem] | None = Field(None, description="What is wrong with the input, all at once.")


def problem_response(scope: Scope, problem: ProblemReport) -> Response:
    """Return the problem document as an answer, and log its code."""
    status, address = problem.status, scope["state"]["address"]
    instance = _TOKEN_IN_PATH.sub(r"\1***", scope.get("raw_path", b"").decode("latin-1"))
    body = problem_body(problem, address, instance=instance, request_id=context_of(scope).request_id)
    if problem.field_errors:
        body["errors"] = [_field_problem(error) for error in problem.field_errors]
    log = _log.error if status == HTTPStatus.INTERNAL_SERVER_ERROR else _log.info
    log("problem", status=status, code=problem.code, method=scope["method"], path=instance)
    return Response(
        orjson.dumps(body, default=str), status, headers=dict(problem.headers or {}), media_type=MEDIA_TYPE
    )


def _field_problem(error: errors.FieldError) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if value is not None}


def status_of(error: errors.DomainError) -> int:
    """Return the HTTP status of an error of a rule."""
    return next(_STATUS_OF[kind] for kind in type(error).__mro__ if kind in _STATUS_OF)


def _model_error(request: Request, error: Exception) -> Response:
    error = cast(errors.DomainError, error)
    status = status_of(error)
    headers: dict[str, str] = {}
    if isinstance(error, errors.RateLimited):
        headers = {**error.headers, "Retry-After": str(error.retry_after)}
    elif isinstance(error, errors.Unavailable):
        headers = {"Retry-After": str(error.retry_after)}
    elif isinstance(error, errors.TooManyStreams):
        headers = {"Retry-After": "5"}
    elif isinstance(error, NoProvider):
        headers = {"Retry-After": "600"}
    elif isinstance(error, errors.Unauthenticated):
        headers = {"WWW-Authenticate": _challenge(request.scope)}
    elif isinstance(error, InvalidSignature):
        headers = {"WWW-Authenticate": 'Signature realm="vedette"'}
    elif isinstance(error, idempotency.InProgress):
        headers = {"Retry-After": "1"}
    problem = ProblemReport(
        status,
        error.code,
        error.message,
        headers=headers,
        details=error.details,
        field_errors=error.errors if isinstance(error, errors.Invalid) else (),
    )
    return problem_response(request.scope, problem)


def _challenge(scope: Scope) -> str:
    """Return the challenge for a client without a valid credential (RFC 6750), with a link (RFC 9728)."""
    parts = ['Bearer realm="vedette"']
    if any(name in (b"authorization", b"x-api-key") for name, _ in scope["headers"]):
        parts.append('error="invalid_token"')
    path = scope["path"]
    if path.startswith("/api/") or path == "/mcp":  # /metrics has a token of its own
        resource = f"{scope['state']['address']}/.well-known/oauth-protected-resource"
        parts.append(f'resource_metadata="{resource}{path if path == "/mcp" else ""}"')
    return ", ".join(parts)


def _http_error(request: Request, error: Exception) -> Response:
    error = cast(HTTPException, error)
    if isinstance(error, Problem):
        problem = ProblemReport(
            error.status_code, error.code, error.detail, headers=error.headers, field_errors=error.errors
        )
        return problem_response(request.scope, problem)
    status, headers, message = error.status_code, dict(error.headers or {}), str(error.detail)
    if status == HTTPStatus.NOT_FOUND:
        message = "There is nothing at this path."
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = request.app.state.routes.methods(request.scope["path"])
        headers["Allow"] = ", ".join(allowed)
        message = f"This path answers {headers['Allow']}."
    code = _CODE_OF.get(status, "invalid_request")
    return problem_response(request.scope, ProblemReport(status, code, message, headers=headers))


def _validation_error(request: Request, error: Exception) -> Response:
    found = cast(RequestValidationError, error)
    if any(item["loc"][0] == "path" for item in found.errors()):
        return problem_response(
            request.scope, ProblemReport(404, "not_found", "There is nothing with this id.")
        )
    listed = field_errors(found.errors(), found.body)
    problem = ProblemReport(400, "invalid_input", errors.describe_errors(listed), field_errors=listed)
    return problem_response(request.scope, problem)


def _database_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ConnectionsBusy):
        _log.warning("connections_busy", reason=str(error))
        message = "Too many requests need the database at once; try again."
        problem = ProblemReport(503, "too_busy", message, headers={"Retry-After": "5"})
        return problem_response(request.scope, problem)
    _log.warning("database_unavailable", error=type(error).__name__, reason=str(error))
    problem = ProblemReport(
        503, "database_unavailable", "The database is away; try again shortly.", headers={"Retry-After": "2"}
    )
    return problem_response(request.scope, problem)


def _engine_error(request: Request, error: Exception) -> Response:
    status = cast(RPCError, error).status
    if status not in _ENGINE_AWAY:
        raise error
    _log.warning("engine_unavailable", status=status.name)
    problem = ProblemReport(
        503,
        "engine_unavailable",
        "The workflow engine is away; try again shortly.",
        headers={"Retry-After": "2"},
    )
    return problem_response(request.scope, problem)


def answer_unexpected(scope: Scope) -> Response:
    """Return the answer to a bug: only the request id, which leads to the log."""
    return problem_response(
        scope,
        ProblemReport(
            500, "internal_error", "Something went wrong on our side; the log has it under the request id."
        ),
    )


def answer_unfinished(scope: Scope) -> Response:
    """Return the answer to a request that this process does not finish, because it stops."""
    message = "The process that worked on this stops; try again."
    return problem_response(scope, ProblemReport(503, "work_lost", message, headers={"Retry-After": "1"}))


def install(app: FastAPI) -> None:
    """Make `app` answer every error with a problem document."""
    app.add_exception_handler(errors.DomainError, _async(_model_error))
    app.add_exception_handler(HTTPException, _async(_http_error))
    app.add_exception_handler(RequestValidationError, _async(_validation_error))
    for away in AWAY:
        app.add_exception_handler(away, _async(_database_error))
    app.add_exception_handler(RPCError, _async(_engine_error))


def _async(handler: Any) -> Any:
    """Wrap a handler as a coroutine, because Starlette runs plain functions in a thread."""

    async def handle(request: Request, error: Exception) -> Response:
        return handler(request, error)

    return handle
