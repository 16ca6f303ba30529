"""Ingest: an event for a workflow, from anyone who has its URL."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, Request, Response
from starlette.datastructures import FormData
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser

from api import limits
from api.deps import Services, ServicesDep
from api.errors import Problem
from api.json_body import StrictRequest, StrictRoute, parse_json
from api.openapi import problems
from api.routes.runs import FINISHED, answer
from models import runs
from models.errors import FieldError, Invalid
from models.runs import MAX_DEDUPE_LENGTH, Accepted, Event, RunAccepted
from models.targets import Target
from workflows import triggers
from workflows.expressions import ExpressionError

router = APIRouter(prefix="/api/workflows/ingest", tags=["ingest"], route_class=StrictRoute)

_MAX_FIELDS = 1000
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


@router.post(
    "/{token}",
    status_code=202,
    response_model=RunAccepted,
    responses={**problems(404, 409, 413, 415, 429), **FINISHED},
)
async def ingest(
    token: str,
    request: Request,
    services: ServicesDep,
    wait: Annotated[int | None, Query(ge=1, le=30)] = None,
) -> Response:
    """Accept an event for the workflow with this ingest token: it will be run, once.

    Events with one `Idempotency-Key`, `webhook-id` or `dedupe` value are one run, whatever their bodies.
    """
    target = await services.ingest_targets.one(token)
    structlog.contextvars.bind_contextvars(workflow_id=str(target.automation_id))
    await limits.check(services, "ingest", str(target.automation_id), request=request)
    payload = await _payload(request)
    context = triggers.readable_request(request.headers.items(), request.query_params)
    dedupe_key = _dedupe_key(request, target, payload, context)
    accepted = await _repeated_misfit(services, target, payload, dedupe_key)
    if accepted is None:
        accepted = await services.accepting.one(Event(target, "webhook", payload, context, dedupe_key))
    return await answer(services, target.account_id, accepted, wait)


async def _repeated_misfit(
    services: Services, target: Target, payload: Any, dedupe_key: str | None
) -> Accepted | None:
    """The run of an event that does not meet the `input_schema` but repeats one; None if it meets it.

    Raises:
        Invalid: it does not, and repeats none.
    """
    try:
        await target.check_input(payload, "")
        return None
    except Invalid:
        if dedupe_key is None:
            raise
        async with services.database.connection() as connection:
            accepted = await runs.accepted_before(connection, target.automation_id, dedupe_key)
        if accepted is None:
            raise
        return accepted


async def _payload(request: Request) -> Any:
    """The event: any JSON, or a form as an object whose repeated fields are arrays."""
    assert isinstance(request, StrictRequest)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in _FORMS:
        return await _form(request, content_type)
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Problem(415, "unsupported_media_type", "Send JSON (application/json) or a form.")
    return parse_json(await request.raw())


async def _form(request: StrictRequest, content_type: str) -> Any:
    raw = await request.raw()
    if raw.lstrip()[:1] in (b"{", b"["):
        # `curl -d '{…}'` says it sends a form. No form begins like this.
        return parse_json(raw)

    async def stream() -> AsyncGenerator[bytes]:
        yield raw

    try:
        if content_type == "multipart/form-data":
            parser = MultiPartParser(request.headers, stream(), max_files=0, max_fields=_MAX_FIELDS)
            return _fields(await parser.parse())
        return _fields(await FormParser(request.headers, stream(), max_fields=_MAX_FIELDS).parse())
    except MultiPartException as error:
        raise Invalid([FieldError("", "invalid_form", error.message)]) from None


def _fields(form: FormData) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in form:
        values = [value for value in form.getlist(name) if isinstance(value, str)]
        if any("\x00" in text for text in (name, *values)):
            raise Invalid([FieldError("", "nul_character", "The form holds a NUL character.")])
        fields[name] = values[0] if len(values) == 1 else values
    return fields


def _dedupe_key(request: Request, target: Target, payload: Any, context: dict[str, Any]) -> str | None:
    for header in ("idempotency-key", "webhook-id"):
        if key := request.headers.get(header):
            if len(key) > MAX_DEDUPE_LENGTH:
                message = f"The header {header} may have {MAX_DEDUPE_LENGTH} characters."
                raise Invalid([FieldError("", "header_too_long", message)])
            return key
    try:
        value = triggers.dedupe_value(target.trigger, payload, context)
    except ExpressionError as error:
        raise Invalid([FieldError("", error.code, f"dedupe: {error.message}")]) from None
    if value is not None and len(value) > MAX_DEDUPE_LENGTH:
        return hashlib.sha256(value.encode()).hexdigest()
    return value
