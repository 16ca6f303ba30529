"""The account's sessions: list them, and end one at once."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from api.deps import Id, ServicesDep, actor
from api.http.strict_route import StrictRoute
from api.routes.auth import SessionCaller
from models.accounts import sessions
from models.errors import NotFound

router = APIRouter(prefix="/api/auth/sessions", tags=["auth"], route_class=StrictRoute)


class SessionView(BaseModel):
    """A session that has not ended."""

    id: UUID = Field(description="The session's id.")
    kind: Literal["browser", "token"] = Field(
        description="A browser's, by a cookie; or a token of POST /api/auth/login."
    )
    current: bool = Field(description="Whether this request was made with it.")
    ip: str | None = Field(description="The address it was begun from.")
    user_agent: str | None = Field(description="The browser, by its own word; null for a token.")
    created_at: datetime = Field(description="When it was begun.")
    expires_at: datetime = Field(description="When it ends by itself.")


class Sessions(BaseModel):
    """All sessions of the account."""

    sessions: list[SessionView] = Field(description="The sessions, newest first.")


@router.get("")
async def list_sessions(caller: SessionCaller, services: ServicesDep) -> Sessions:
    """List the account's sessions."""
    async with services.database.connection() as connection:
        found = await sessions.list_all(connection, caller.account_id)
    return Sessions(sessions=[SessionView(**one, current=one["id"] == caller.credential_id) for one in found])


@router.delete("", status_code=204)
async def end_other_sessions(request: Request, caller: SessionCaller, services: ServicesDep) -> None:
    """End all sessions but that of this request, at once and everywhere, their streams included."""
    async with services.database.transaction() as connection:
        await sessions.end_others(connection, actor(request, caller))


@router.delete("/{session_id}", status_code=204)
async def end_session(session_id: Id, request: Request, caller: SessionCaller, services: ServicesDep) -> None:
    """End a session, at once and everywhere, its streams included."""
    async with services.database.transaction() as connection:
        if not await sessions.end(connection, actor(request, caller), session_id):
            raise NotFound("session")
    services.credentials.forget(str(session_id))
