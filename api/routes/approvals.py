"""The approvals: what waits for somebody's answer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from api.deps import Caller, ServicesDep, require_scope
from api.http.cursors import Limit
from api.http.strict_route import StrictRoute
from models.runs import approvals, resume_tokens
from models.runs.resume_tokens import StepPosition

router = APIRouter(prefix="/api/workflows/approvals", tags=["runs"], route_class=StrictRoute)


class ApprovalView(BaseModel):
    """A step that waits for somebody's answer."""

    run_id: UUID = Field(description="The run.")
    workflow_id: UUID = Field(description="Its workflow.")
    workflow_name: str = Field(description="What the workflow is called.")
    step_id: str = Field(description="The step.")
    title: str | None = Field(description="What it asks, in a line; null if it does not say.")
    message: str | None = Field(description="What else it says.")
    asked_at: datetime = Field(description="When it began to wait.")
    expires_at: datetime | None = Field(description="When it waits no longer; null for a default time.")
    resume_url: str = Field(description="Whoever has it can answer: a page with a form, and POST.")


class Approvals(BaseModel):
    """Steps that wait for somebody's answer."""

    approvals: list[ApprovalView] = Field(description="The steps, of the newest runs first.")


@router.get("")
async def list_approvals(
    caller: Annotated[Caller, require_scope("workflows")],
    services: ServicesDep,
    limit: Limit = 20,
) -> Approvals:
    """List the steps that wait for somebody's answer now."""
    async with services.database.connection() as connection:
        found = await approvals.list_newest(connection, caller.account_id, limit)
    keyring, address = services.keyring, services.settings.address
    return Approvals(
        approvals=[
            ApprovalView(
                **{name: value for name, value in one._asdict().items() if name != "position"},
                resume_url=resume_tokens.resume_url(keyring, address, StepPosition(one.run_id, one.position)),
            )
            for one in found
        ]
    )
