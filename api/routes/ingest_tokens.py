"""Ingest URLs: the rotation of their tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from api.deps import Caller, Id, ServicesDep, actor, require_scope
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from models.automations import ingest_tokens
from models.views import View

router = APIRouter(prefix="/api/workflows", tags=["triggers"], route_class=StrictRoute)


class TokenRotation(Body):
    """The replacement of an ingest URL."""

    overlap_seconds: Annotated[int, Field(strict=True, ge=0, le=7 * 86_400)] = Field(
        default=0, description="For how many seconds the URL before works, too."
    )


class TokenRotated(View):
    """The current ingest URL of a workflow."""

    webhook_url: str = Field(description="The new ingest URL.")
    previous_expires_at: datetime | None = Field(
        description="Until when the one before works; null if it no longer does."
    )


@router.post("/{workflow_id}/rotate-token")
async def rotate_workflow_token(
    workflow_id: Id,
    request: Request,
    caller: Annotated[Caller, require_scope("workflows")],
    services: ServicesDep,
    body: TokenRotation | None = None,
) -> TokenRotated:
    """Give the workflow another ingest URL, at once. Only the previous one may stay valid beside it.

    This makes no new version of the workflow.
    """
    overlap = timedelta(seconds=(body or TokenRotation()).overlap_seconds)
    async with services.database.transaction() as connection:
        rotated = await ingest_tokens.rotate(
            connection, services.keyring, actor(request, caller), workflow_id, overlap
        )
    url = ingest_tokens.url_of(services.keyring, workflow_id, rotated.sealed, services.settings.address)
    return TokenRotated(webhook_url=url, previous_expires_at=rotated.former_ends_at)
