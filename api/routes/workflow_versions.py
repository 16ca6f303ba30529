"""The versions of a workflow: list, read, draw, restore."""

from __future__ import annotations

import asyncio
from typing import Annotated

import fastapi
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from api import saving
from api.deps import EndsWithClient, Id, ServicesDep
from api.http.cursors import Cursor, Limit, cursor_of, number_of
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.routes.workflows import Author, EditorDep, set_etag
from language.graph import Graph, draw_graph
from models.automations import versions
from models.automations.automation_views import WorkflowView
from models.automations.versions import VersionDefinition, VersionView

router = APIRouter(prefix="/api/workflows", tags=["workflows"], route_class=StrictRoute)


Version = Annotated[int, fastapi.Path(ge=1, le=2**31 - 1)]


class VersionPage(BaseModel):
    """Versions, newest first."""

    versions: list[VersionView] = Field(description="The versions of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


@router.get("/{workflow_id}/versions")
async def list_workflow_versions(
    workflow_id: Id,
    caller: Author,
    services: ServicesDep,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> VersionPage:
    """List the versions of the workflow, newest first, with the fields that each changed."""
    before = number_of(cursor, 9)
    async with services.database.connection() as connection:
        page, more = await versions.list_page(
            connection, caller.account_id, workflow_id, before=before, limit=limit
        )
    return VersionPage(versions=page, next_cursor=cursor_of(more))


@router.get("/{workflow_id}/versions/{version}")
async def get_workflow_version(
    workflow_id: Id, version: Version, caller: Author, services: ServicesDep
) -> VersionDefinition:
    """Get an earlier definition of the workflow."""
    async with services.database.connection() as connection:
        return await versions.get(connection, caller.account_id, workflow_id, version)


@router.get("/{workflow_id}/versions/{version}/graph")
async def get_workflow_graph(
    workflow_id: Id, version: Version, caller: Author, services: ServicesDep
) -> Graph:
    """Get the steps of a version, and what each waits for, to be drawn."""
    async with services.database.connection() as connection:
        definition = await versions.get_definition(connection, caller.account_id, workflow_id, version)
    return await asyncio.to_thread(draw_graph, definition)


@router.post(
    "/{workflow_id}/versions/{version}/restore",
    dependencies=[EndsWithClient],
    responses=problems("version_mismatch", "person_required", *saving.REFUSED),
)
async def restore_workflow_version(
    workflow_id: Id,
    version: Version,
    editor: EditorDep,
    services: ServicesDep,
    response: Response,
) -> WorkflowView:
    """Make an earlier definition the current one again, as a new version. The status stays."""
    view = await saving.restore(services, editor, workflow_id, version)
    return set_etag(view, response)
