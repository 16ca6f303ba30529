"""Workflows: create, read, run by hand."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from api.conditions import IfMatch, expected_version
from api.context import context_of
from api.deps import Caller, Id, Services, ServicesDep, actor, authorised
from api.idempotency import Idempotent
from api.json_body import StrictRoute
from api.openapi import problems
from api.routes.runs import FINISHED, answer
from api.validation import Body
from database import Connection
from models import automations, runs, targets
from models.automations import Status, WorkflowView
from models.runs import RunAccepted
from workflows.definition import MAX_STEPS, Definition, ManualTrigger, Name, Step, Trigger

router = APIRouter(prefix="/api/workflows", tags=["workflows"], route_class=StrictRoute)

Author = Annotated[Caller, authorised("workflows")]


class WorkflowBody(Definition):
    """A definition, and whether it is to be active at once."""

    status: Status = "active"


class WorkflowChanges(Body):
    """The fields to change; the absent ones stay. Those that nobody can set are ignored."""

    read_only = frozenset(WorkflowView.model_fields) - {"name", "description", "trigger", "steps", "status"}

    name: Name = Field(default="")
    description: str | None = Field(None, max_length=10_000)
    trigger: Trigger = ManualTrigger()
    steps: list[Step] = Field(default_factory=list[Step], max_length=MAX_STEPS)
    status: Status = "active"


class RunBody(Body):
    """What a run by hand starts with."""

    input: Any = None


class WorkflowPage(BaseModel):
    """A page of workflows, newest first."""

    workflows: list[WorkflowView]
    total: int
    page: int


class Deleted(BaseModel):
    """It is gone."""

    success: bool = True
    message: str = "The workflow is deleted."


@router.post("", status_code=201)
async def create_workflow(
    body: WorkflowBody, request: Request, caller: Author, services: ServicesDep, response: Response
) -> WorkflowView:
    """Store a workflow as version 1 and issue its ingest URL."""
    definition = Definition.model_validate(body.model_dump(exclude={"status"}, exclude_unset=True))
    warnings = automations.check(definition)
    async with services.database.transaction() as connection:
        created = await automations.create(
            connection, services.keyring, actor(request, caller), definition, body.status
        )
        view = await _view(connection, services, caller, created, response)
    return view.model_copy(update={"warnings": warnings})


@router.get("")
async def list_workflows(
    caller: Author,
    services: ServicesDep,
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    status: Status | None = None,
) -> WorkflowPage:
    """The account's workflows, newest first."""
    async with services.database.connection() as connection:
        views, total = await automations.list_page(
            connection, services.keyring, caller.account_id, services.settings.address,
            status=status, page=page, limit=limit,
        )  # fmt: skip
    return WorkflowPage(workflows=views, total=total, page=page)


@router.get("/{workflow_id}", responses=problems(404))
async def get_workflow(
    workflow_id: Id, caller: Author, services: ServicesDep, response: Response
) -> WorkflowView:
    """The workflow with its current version."""
    async with services.database.connection() as connection:
        return await _view(connection, services, caller, workflow_id, response)


@router.put("/{workflow_id}", responses=problems(404, 412))
@router.patch("/{workflow_id}", responses=problems(404, 412))
async def change_workflow(
    workflow_id: Id,
    body: WorkflowChanges,
    request: Request,
    caller: Author,
    services: ServicesDep,
    response: Response,
    if_match: IfMatch = None,
) -> WorkflowView:
    """Change some fields: a new version, also for a change of status. PUT and PATCH both merge."""
    changes = body.model_dump(mode="json", exclude_unset=True, by_alias=True)
    async with services.database.transaction() as connection:
        warnings = await automations.change(
            connection, actor(request, caller), workflow_id, changes, expected_version(if_match)
        )
        view = await _view(connection, services, caller, workflow_id, response)
    return view.model_copy(update={"warnings": warnings})


@router.delete("/{workflow_id}", responses=problems(404))
async def delete_workflow(
    workflow_id: Id, request: Request, caller: Author, services: ServicesDep
) -> Deleted:
    """Delete the workflow: its ingest URL is dead at once. Its runs go on, and stay readable."""
    async with services.database.transaction() as connection:
        await automations.delete(connection, actor(request, caller), workflow_id)
    return Deleted()


async def _view(
    connection: Connection, services: Services, caller: Caller, workflow_id: UUID, response: Response
) -> WorkflowView:
    view = await automations.get(
        connection, services.keyring, caller.account_id, workflow_id, services.settings.address
    )
    response.headers["ETag"] = f'"v{view.version}"'
    return view


@router.post(
    "/{workflow_id}/run",
    status_code=202,
    dependencies=[Idempotent],
    response_model=RunAccepted,
    responses={**problems(404, 409), **FINISHED},
)
async def run_workflow(
    workflow_id: Id,
    body: RunBody,
    request: Request,
    caller: Author,
    services: ServicesDep,
    wait: Annotated[int | None, Query(ge=1, le=30)] = None,
) -> Response:
    """Start a run by hand; `input` is the `trigger` of its expressions."""
    async with services.database.connection() as connection:
        target = await targets.run_target(connection, caller.account_id, workflow_id)
        claim = context_of(request.scope).claim
        # The claim outlives a crash between the commit and the answer: the repeat finds this run.
        dedupe_key = f"request/{claim.id}" if claim else None
        accepted = await runs.accept(connection, target, "manual", body.input, dedupe_key=dedupe_key)
    return await answer(services, caller.account_id, accepted, wait)
