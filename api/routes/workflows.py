"""Workflows: create, read, change, validate, run by hand."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import fastapi
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from api import saving
from api.context import AWAITS
from api.deps import Caller, EndsWithClient, Id, Services, ServicesDep, actor, require_scope, rules_for
from api.http.chain import depth_of
from api.http.conditions import IfMatch, expected_version
from api.http.cursors import Limit, Page
from api.http.idempotency import Idempotent
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body, as_it_came
from api.routes.runs import CHECKED, FINISHED, Wait, answer, cancel_all, claimed_key
from api.saving import Editor
from api.schemas.findings import FoundView, WarningView
from language.definition import Concurrency, Name, OnFailure, Status
from language.graph import Graph, draw_graph
from language.search import MAX_PATHS
from language.search import Path as SearchPath
from language.steps import MAX_STEPS, Step
from language.triggers import Trigger
from language.validation.definition import Document
from models.accounts import agents, secrets
from models.automations import automation_views, automations, definitions, exporting, run_targets
from models.automations.automation_views import WorkflowQuery, WorkflowView
from models.runs.acceptance import RunAccepted, RunRequest
from models.schedules.automation_schedules import next_times
from models.views import View
from services import checking
from services.checking import SubmittedWorkflow
from services.dry_runs import only_one

router = APIRouter(prefix="/api/workflows", tags=["workflows"], route_class=StrictRoute)

Author = Annotated[Caller, require_scope("workflows")]
Exporter = Annotated[Caller, require_scope("workflows", proven=True)]


class WorkflowChanges(TypedDict, total=False):
    """The fields to change; the absent ones stay. Read-only ones are ignored."""

    name: Annotated[Name, Field(description="What the workflow is called.")]
    description: Annotated[str | None, Field(max_length=10_000, description="What it is for.")]
    trigger: Annotated[Trigger, Field(description="What starts its runs.")]
    steps: Annotated[
        list[Step],
        Field(
            max_length=MAX_STEPS,
            description="What a run does, in this order unless `needs` says otherwise.",
        ),
    ]
    input_schema: Annotated[
        dict[str, Any] | None,
        Field(
            description="A JSON Schema (draft 2020-12) that the input of every run must meet; null for none."
        ),
    ]
    concurrency: Annotated[
        Concurrency | None,
        Field(description="How many runs of it there may be at a time; null for any number."),
    ]
    on_failure: Annotated[
        OnFailure | None, Field(description="What runs when a run of it has failed; null for nothing.")
    ]
    search: Annotated[
        list[SearchPath],
        Field(
            max_length=MAX_PATHS,
            description="Paths such as trigger.order_id: runs are found by the values there.",
        ),
    ]
    agents: Annotated[bool, Field(description="Whether agents (MCP) may see it and use it.")]
    status: Annotated[Status, Field(description="Only an active workflow starts runs.")]


class NewWorkflow(Document):
    """A workflow to store, or the template to copy."""

    template_id: str | None = Field(
        default=None,
        description="A template: what the other fields leave out, `name` too, is as the template has it."
        " A `trigger` without a type changes the template's.",
    )
    secrets: dict[str, str] | None = Field(
        default=None,
        description="Secrets to store with it, by their names: those that it uses and the account lacks.",
        json_schema_extra={"writeOnly": True},
    )


# All errors in them are found at once, later.
GivenDocument = Annotated[dict[str, Any], as_it_came(NewWorkflow), fastapi.Body()]
GivenChanges = Annotated[dict[str, Any], as_it_came(WorkflowChanges), fastapi.Body()]


async def read_editor(
    request: Request, caller: Author, services: ServicesDep, if_match: IfMatch = None
) -> Editor:
    """Return the author of a change to a workflow."""
    return Editor(actor(request, caller), rules_for(services, caller), expected_version(if_match))


EditorDep = Annotated[Editor, Depends(read_editor)]


class RunBody(Body):
    """The input of a run by hand."""

    input: Any = Field(None, description="Any JSON: the `trigger` of the workflow's expressions.")


class WorkflowPage(BaseModel):
    """A page of workflows, newest first."""

    workflows: list[WorkflowView] = Field(description="The workflows of this page.")
    total: int = Field(description="How many there are in all.")
    page: int = Field(description="The number of this page.")


class Validity(BaseModel):
    """The verdict on a document: whether it can be saved as a workflow, and the errors."""

    valid: bool = Field(description="Whether it can be saved.")
    errors: list[FoundView] = Field(description="What stands in the way, all at once.")
    warnings: list[WarningView] = Field(description="What is doubtful.")
    next_runs: list[datetime] = Field(
        description="When its schedule would have it run, had it been made active now: the first five times."
    )
    graph: Graph | None = Field(description="The steps and what they wait for; null if it cannot be saved.")


class Deleted(View):
    """It is gone."""

    success: bool = Field(default=True, description="Always true.")
    message: str = Field(default="The workflow is deleted.", description="What was done, for people.")


@router.post(
    "",
    status_code=201,
    dependencies=[EndsWithClient],
    responses=problems(
        "too_many_workflows", "secret_exists", "too_many_secrets", "person_required", *saving.REFUSED
    ),
)
async def create_workflow(
    body: GivenDocument, request: Request, caller: Author, services: ServicesDep, response: Response
) -> WorkflowView:
    """Store a workflow as version 1 and issue its ingest URL.

    With `template_id` it is a copy of a template. A copy that lacks a secret, a monitor or an input is stored
    as a draft, and `warnings` name the missing parts with the remedy.

    `secrets` are stored together with the workflow, or nothing is stored.
    """
    view = await saving.create(services, actor(request, caller), body, rules_for(services, caller))
    return set_etag(view, response)


@router.post(
    "/validate",
    dependencies=[EndsWithClient],
    responses=problems("dry_run_in_progress", "person_required", *saving.POOLED),
)
async def validate_workflow(
    body: GivenDocument, request: Request, caller: Author, services: ServicesDep
) -> Validity:
    """Check a workflow as its creation would, and store nothing. One check at a time, beside a dry run."""
    given = secrets.read_given(body.get("secrets"))
    agents.check_new_secrets(actor(request, caller), given)
    document = {name: value for name, value in body.items() if name != "secrets"}
    async with only_one(services.database, caller.account_id, "validation"):
        submitted = SubmittedWorkflow(caller.account_id, document, given_secrets=given)
        found = await checking.check(
            services.pool, services.database, services.keyring, submitted, rules_for(services, caller)
        )
    if found.readings is not None:
        saving.check_agent(actor(request, caller), document, found.readings)
    report = found.report
    return Validity(
        valid=report.definition is not None,
        errors=[FoundView(**finding._asdict()) for finding in report.errors],
        warnings=[WarningView(**finding._asdict()) for finding in report.warnings],
        next_runs=[] if report.definition is None else next_times(report.definition.trigger),
        graph=report.definition and draw_graph(report.definition),
    )


@router.get("/schema")
async def get_workflow_schema(caller: Author) -> dict[str, Any]:
    """Get the JSON Schema of workflows: the part of the rules that an editor can check."""
    return definitions.json_schema()


@router.get("")
async def list_workflows(
    caller: Author,
    services: ServicesDep,
    page: Page = 1,
    limit: Limit = 20,
    status: Annotated[Status | None, Query(description="Only those with this status.")] = None,
    agents: Annotated[bool | None, Query(description="Only those that agents may see, or may not.")] = None,
) -> WorkflowPage:
    """List the account's workflows, newest first.

    A page has 4 MiB at most. A workflow whose definition does not fit has `omitted: {omitted, bytes, url}`.
    """
    async with (
        services.locks.hold(("workflows", caller.account_id)),
        services.database.connection() as connection,
    ):
        views, total = await automation_views.list_page(
            connection, services.keyring, caller.account_id, services.settings.address,
            WorkflowQuery(status, agents, page, limit),
        )  # fmt: skip
    return WorkflowPage(workflows=views, total=total, page=page)


@router.get("/{workflow_id}")
async def get_workflow(
    workflow_id: Id, caller: Author, services: ServicesDep, response: Response
) -> WorkflowView:
    """Get the workflow with its current version."""
    async with services.database.connection() as connection:
        view = await automation_views.get(
            connection, services.keyring, caller.account_id, workflow_id, services.settings.address
        )
    return set_etag(view, response)


@router.put(
    "/{workflow_id}",
    dependencies=[EndsWithClient],
    responses=problems("version_mismatch", "person_required", *saving.REFUSED),
)
@router.patch(
    "/{workflow_id}",
    dependencies=[EndsWithClient],
    responses=problems("version_mismatch", "person_required", *saving.REFUSED),
)
async def change_workflow(
    workflow_id: Id,
    body: GivenChanges,
    editor: EditorDep,
    services: ServicesDep,
    response: Response,
) -> WorkflowView:
    """Change some fields: a new version, also for a change of status. PUT and PATCH both merge."""
    view = await saving.change(services, editor, workflow_id, body)
    return set_etag(view, response)


@router.get(
    "/{workflow_id}/export",
    response_class=Response,
    responses={
        200: {"description": "The file.", "content": {"application/json": {"schema": {"type": "object"}}}},
        **problems("password_required"),
    },
)
async def export_workflow(workflow_id: Id, caller: Exporter, services: ServicesDep) -> Response:
    """Get the workflow as a file that `POST /api/workflows` and `vedette workflows validate` accept.

    It has only the names of secrets, and the ids of monitors and other workflows.
    """
    async with services.database.connection() as connection:
        current = await automations.get_current(connection, caller.account_id, workflow_id)
    named = f'attachment; filename="{exporting.file_name(current.definition["name"])}.json"'
    content = exporting.write_document(current.definition, current.status)
    return Response(content, media_type="application/json", headers={"Content-Disposition": named})


@router.delete("/{workflow_id}", responses=problems("version_mismatch", "person_required"))
async def delete_workflow(
    workflow_id: Id,
    request: Request,
    caller: Author,
    services: ServicesDep,
    cancel_runs: Annotated[bool, Query(description="End its runs too.")] = False,
    if_match: IfMatch = None,
) -> Deleted:
    """Delete the workflow: its ingest URL is dead at once. Its runs stay readable, and continue."""
    version = expected_version(if_match)
    who = actor(request, caller)
    if cancel_runs:
        # There may be very many runs. If this fails half-way, the workflow still exists and can be deleted.
        async with services.database.connection() as connection:
            await automations.get_current(connection, caller.account_id, workflow_id, version)
        await cancel_all(services, who, workflow_id)
    async with services.database.transaction() as connection:
        await agents.check_workflow_change(connection, who, workflow_id)
        await automations.delete(connection, who, workflow_id, version)
    if cancel_runs:
        await cancel_all(services, who, workflow_id)
    return Deleted()


def set_etag(view: WorkflowView, response: Response) -> WorkflowView:
    """Name the version of an answered workflow, for `If-Match`."""
    response.headers["ETag"] = f'"v{view.version}"'
    return view


@router.post(
    "/{workflow_id}/run",
    status_code=202,
    dependencies=[Idempotent],
    response_model=RunAccepted,
    responses={
        **problems("workflow_not_active", "too_many_runs", "too_many_streams", "chain_too_deep", *CHECKED),
        **FINISHED,
    },
)
async def run_workflow(
    workflow_id: Id,
    body: RunBody,
    request: Request,
    caller: Author,
    services: ServicesDep,
    wait: Wait = None,
) -> Response:
    """Start a run by hand; `input` is the `trigger` of its expressions."""
    with nullcontext() if wait is None else services.streams.hold(caller.account_id):
        return await _run(services, workflow_id, body, request, caller, wait)


async def _run(
    services: Services, workflow_id: UUID, body: RunBody, request: Request, caller: Caller, wait: int | None
) -> Response:
    async with services.database.connection() as connection:
        target = await run_targets.run_target(connection, caller.account_id, workflow_id)
    await services.event_checks.check_input(target, body.input, "/input")
    event = RunRequest(
        target, "manual", body.input,
        dedupe_key=claimed_key(request), depth=depth_of(request), actor=actor(request, caller),
        is_waited_for=wait is not None or request.scope.get(AWAITS, False),
    )  # fmt: skip
    accepted = await services.run_intake.accept(event)
    return await answer(services, request, caller.account_id, accepted, wait)
