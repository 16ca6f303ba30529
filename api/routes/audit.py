"""The audit log of workflows: changes, with their authors."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from api.deps import Caller, Id, ServicesDep, require_scope
from api.http.cursors import Cursor, Limit, cursor_of_id, id_of
from api.http.strict_route import StrictRoute
from models import audit
from models.audit import AuditView

router = APIRouter(prefix="/api/workflows", tags=["workflows"], route_class=StrictRoute)

Author = Annotated[Caller, require_scope("workflows")]


class AuditPage(BaseModel):
    """Changes, newest first."""

    entries: list[AuditView] = Field(description="The changes of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


@router.get("/audit")
async def list_audit(
    caller: Author, services: ServicesDep, limit: Limit = 20, cursor: Cursor = None
) -> AuditPage:
    """List the changes to the account's workflows, runs and secrets with their authors, newest first."""
    before = id_of(cursor)
    async with services.database.connection() as connection:
        page, more = await audit.list_workflow_entries(
            connection, caller.account_id, None, before=before, limit=limit
        )
    return AuditPage(entries=page, next_cursor=cursor_of_id(more))


@router.get("/{workflow_id}/audit")
async def list_workflow_audit(
    workflow_id: Id, caller: Author, services: ServicesDep, limit: Limit = 20, cursor: Cursor = None
) -> AuditPage:
    """List the changes to the workflow and its runs with their authors, newest first, also if deleted."""
    before = id_of(cursor)
    async with services.database.connection() as connection:
        page, more = await audit.list_workflow_entries(
            connection, caller.account_id, workflow_id, before=before, limit=limit
        )
    return AuditPage(entries=page, next_cursor=cursor_of_id(more))
