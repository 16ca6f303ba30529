"""Resuming: the answer to a step that waits, from anyone who has its URL."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import structlog
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from api.deps import ServicesDep
from api.http import limits
from api.http.errors import Problem
from api.http.json_body import StrictRequest, StrictRoute, parse_json
from api.http.openapi import problems
from api.routes.runs import CHECKED
from models import resume_tokens, resuming
from models.errors import NotFound
from models.runs import QUEUED_CHANNEL

router = APIRouter(prefix="/api/workflows/resume", tags=["triggers"], route_class=StrictRoute)

# The body is read here, for it may be missing.
_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": False,
        "description": "Any JSON: the `body` of the step's output. Without one it is null.",
        "content": {
            "application/json": {
                "schema": {"type": "object", "additionalProperties": True},
                "example": {"approved": True},
            }
        },
    }
}


class Resumed(BaseModel):
    """The answer to what was posted: it is stored, and the run goes on."""

    run_id: UUID = Field(description="The run that goes on.")
    step: str = Field(description="The step that has waited for it.")
    message: str = Field(description="The same for people.")


@router.post(
    "/{token}",
    status_code=202,
    responses=problems("resume_over", "rate_limited", *CHECKED),
    openapi_extra=_REQUEST,
)
async def resume(token: str, request: Request, services: ServicesDep) -> Resumed:
    """Answer a step that waits, once: its run goes on with what is posted.

    It may be posted before the step begins. What does not meet the step's `input_schema` changes nothing.
    """
    place = resume_tokens.read_token(services.keyring, token)
    if place is None:
        raise NotFound("resume URL")
    async with services.database.connection() as connection:
        waiting = await resuming.find(connection, place)
    structlog.contextvars.bind_contextvars(
        account_id=str(waiting.account_id), run_id=str(place.run_id), workflow_id=str(waiting.automation_id)
    )
    await limits.check(services, "ingest", str(waiting.automation_id), request=request)
    assert isinstance(request, StrictRequest)
    body = await _body(request)
    if waiting.schema is not None:
        await services.event_checks.check_schema(waiting.account_id, waiting.schema, body, "")
    async with services.database.transaction() as connection:
        await resuming.resume(connection, place.run_id, waiting.step_id, body)
    services.notifier.notify(QUEUED_CHANNEL)
    return Resumed(run_id=place.run_id, step=waiting.step_id, message="Accepted: the run goes on.")


async def _body(request: StrictRequest) -> Any:
    raw = await request.raw()
    if not raw.strip():
        return None
    content_type = request.media_type
    # `curl -d '{…}'` says that it sends a form.
    if content_type not in ("application/json", "application/x-www-form-urlencoded", "") and not (
        content_type.endswith("+json")
    ):
        raise Problem(415, "unsupported_media_type", "Send JSON (application/json), or nothing.")
    return parse_json(raw)
