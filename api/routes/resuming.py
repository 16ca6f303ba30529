"""Resuming: the answer to a waiting step, from anyone who has its URL."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field

from api.deps import Services, ServicesDep
from api.http import limits
from api.http.accept import choose_media_type
from api.http.errors import status_of
from api.http.json_body import StrictRequest, parse_json
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.pages import resume_pages
from api.pages.resume_forms import Answer, fields_of, note_errors, read_form
from api.pages.resume_pages import Question
from api.problems import Problem
from api.routes.runs import CHECKED
from models.errors import Conflict, DomainError, Invalid, NotFound, RateLimited, Unavailable
from models.runs import prompts, resume_tokens, resumption
from models.runs.prompts import Prompt
from models.runs.resume_tokens import StepPosition
from models.runs.resumption import ResumableStep
from models.runs.runs import QUEUED_CHANNEL

router = APIRouter(prefix="/api/workflows/resume", tags=["triggers"], route_class=StrictRoute)

# The body is read here, because it may be missing.
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


class ResumePrompt(BaseModel):
    """A step's question to the person who resumes it."""

    run_id: UUID = Field(description="The run that waits, or is to wait.")
    workflow_name: str = Field(description="What its workflow is called.")
    step: str = Field(description="The step.")
    title: str | None = Field(
        description="What it asks, in a line; null if it does not say, or has not begun."
    )
    message: str | None = Field(description="What else it says.")
    input_schema: dict[str, Any] | None = Field(
        description="The JSON Schema that the answer must meet; null for any JSON."
    )


def _refusals(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return `problems` for codes that are shown as a page to clients that do not accept JSON."""
    responses = problems(*codes)
    for response in responses.values():
        response["content"]["text/html"] = {"schema": {"type": "string"}}
    return responses


# HTML comes first: clients without a preference get it.
_SHOWN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The page; JSON for those who accept that and no HTML.",
        "content": {
            "text/html": {"schema": {"type": "string"}},
            "application/json": {"schema": ResumePrompt.model_json_schema()},
        },
    }
}
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "What the page's form sends: its fields, by names that the page gives them.",
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "additionalProperties": {"type": "string"}}
            }
        },
    }
}


class Resumed(BaseModel):
    """The confirmation of an answer: it is stored, and the run continues."""

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
    """Answer a waiting step, once: its run continues with the posted value.

    It may be posted before the step begins. A value that violates the step's `input_schema` changes nothing.
    """
    place, waiting, _ = await _find(token, request, services)
    assert isinstance(request, StrictRequest)
    return await _resume(services, place, waiting, await _body(request))


@router.head("/{token}", include_in_schema=False)
@router.get(
    "/{token}",
    response_class=HTMLResponse,
    responses={**_refusals("not_found", "resume_over", "rate_limited"), **_SHOWN},
)
async def get_resume_page(token: str, request: Request, services: ServicesDep) -> Response:
    """Show a step's question, as a page with a form for the answer. Viewing it changes nothing."""
    try:
        place, waiting, prompt = await _find(token, request, services)
    except DomainError as error:
        return _page_for(request, error)
    if not _wants_page(request):
        shown = ResumePrompt(
            run_id=place.run_id, workflow_name=waiting.workflow, step=waiting.step_id,
            title=prompt and prompt.title, message=prompt and prompt.message,
            input_schema=waiting.step.config.input_schema,
        )  # fmt: skip
        return JSONResponse(shown.model_dump(mode="json"), headers={"Vary": "Accept"})
    return _form_page(waiting, prompt, Answer(), f"{token}/form")


@router.post(
    "/{token}/form",
    response_class=HTMLResponse,
    responses={
        **_refusals("invalid_input", "not_found", "resume_over", "rate_limited", *CHECKED),
        200: {
            "description": "The page that says so.",
            "content": {"text/html": {"schema": {"type": "string"}}},
        },
    },
    openapi_extra=_FORM,
)
async def resume_by_form(token: str, request: Request, services: ServicesDep) -> Response:
    """Answer a waiting step by the form of its page, once.

    A value that violates the step's `input_schema` changes nothing: the page is shown again with the errors.
    """
    assert isinstance(request, StrictRequest)
    try:
        place, waiting, prompt = await _find(token, request, services)
        fields = fields_of(waiting.step.config.input_schema)
        answer = read_form(await _form(request), fields)
        if not answer.errors:
            try:
                await _resume(services, place, waiting, answer.body)
            except Invalid as invalid:
                note_errors(answer, fields, invalid.errors)
    except DomainError as error:
        return _page_for(request, error)
    if answer.errors:
        return _form_page(waiting, prompt, answer, "form")
    return HTMLResponse(resume_pages.done_page(waiting.workflow), headers=resume_pages.HEADERS)


async def _find(
    token: str, request: Request, services: Services
) -> tuple[StepPosition, ResumableStep, Prompt | None]:
    """Return the step that a token is for, and its question.

    Raises:
        NotFound, Conflict, RateLimited: there is nothing to answer, or not now.
    """
    place = resume_tokens.read_token(services.keyring, token)
    if place is None:
        raise NotFound("resume URL")
    services.database.lend_to(str(place.run_id))  # the account is not known yet
    async with services.database.connection() as connection:
        waiting = await resumption.find(connection, place)
        prompt = await prompts.find(connection, place.run_id, waiting.step_id)
    structlog.contextvars.bind_contextvars(
        account_id=str(waiting.account_id), run_id=str(place.run_id), workflow_id=str(waiting.automation_id)
    )
    await limits.check(services, "ingest", str(waiting.automation_id), request=request)
    return place, waiting, prompt


async def _resume(services: Services, place: StepPosition, waiting: ResumableStep, body: Any) -> Resumed:
    if waiting.schema is not None:
        await services.event_checks.check_schema(waiting.account_id, waiting.schema, body, "")
    async with services.database.transaction() as connection:
        await resumption.resume(connection, place.run_id, waiting.step_id, body)
    services.notifier.notify(QUEUED_CHANNEL)
    return Resumed(run_id=place.run_id, step=waiting.step_id, message="Accepted: the run goes on.")


def _wants_page(request: Request) -> bool:
    page = "text/html"
    return choose_media_type(request, page, "application/json", "application/problem+json") == page


def _form_page(waiting: ResumableStep, prompt: Prompt | None, answer: Answer, action: str) -> Response:
    config = waiting.step.config
    title, message = prompt or (None, None)
    question = Question(
        workflow=waiting.workflow,
        title=title or waiting.step.name or "Your answer is asked for",
        message=message or "",
        has_begun=prompt is not None or (config.title is None and config.message is None),
    )
    fields = fields_of(config.input_schema)
    page = resume_pages.form_page(question, fields, answer, action)
    return HTMLResponse(page, 400 if answer.errors else 200, headers=resume_pages.HEADERS)


_GONE = (
    "There is nothing to answer any more",
    "This question was answered before, its time is over, or its run has ended. Nothing was changed.",
)
_UNKNOWN = ("There is nothing here", "This address leads to no question, or its run is long over.")


def _page_for(request: Request, error: DomainError) -> Response:
    """Return the page for an error; for clients that want no page, the problem document.

    Raises:
        DomainError: for the latter.
    """
    if not _wants_page(request):
        raise error
    title, message = "This cannot be answered now", error.message
    headers = dict(resume_pages.HEADERS)
    match error:
        case NotFound():
            title, message = _UNKNOWN
        case Conflict():
            title, message = _GONE
        case RateLimited() | Unavailable():
            headers["Retry-After"] = str(error.retry_after)
        case _:
            pass
    return HTMLResponse(resume_pages.refusal_page(title, message), status_of(error), headers=headers)


async def _form(request: StrictRequest) -> bytes:
    if request.media_type != "application/x-www-form-urlencoded":
        raise Problem(415, "unsupported_media_type", "Send the form as application/x-www-form-urlencoded.")
    return await request.raw()


async def _body(request: StrictRequest) -> Any:
    raw = await request.raw()
    if not raw.strip():
        return None
    content_type = request.media_type
    # `curl -d '{…}'` sends the content type of a form.
    if content_type not in ("application/json", "application/x-www-form-urlencoded", "") and not (
        content_type.endswith("+json")
    ):
        raise Problem(415, "unsupported_media_type", "Send JSON (application/json), or nothing.")
    return parse_json(raw)
