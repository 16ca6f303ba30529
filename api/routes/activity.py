"""The activity of an account: the list of what happened, and the live stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, Field

from api.deps import Caller, ServicesDep, require_scope
from api.http.cursors import Cursor, Limit, cursor_of_id, id_of
from api.http.strict_route import StrictRoute
from api.streams import live_events
from api.streams.account_events import stream
from models.activity import activity
from models.activity.activity import ActivityView

router = APIRouter(prefix="/api", tags=["activity"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("workflows")]
_RESPONSES = {status: response for status, response in live_events.RESPONSES.items() if status != 204}


class ActivityPage(BaseModel):
    """A page of the activity, newest first."""

    entries: list[ActivityView] = Field(description="What happened, of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


@router.get("/activity")
async def list_activity(
    caller: Owner, services: ServicesDep, limit: Limit = 20, cursor: Cursor = None
) -> ActivityPage:
    """List what happened lately, of all kinds: failures, changes, approvals, ended jobs, changed workflows.

    The newest come first: of runs and jobs, those that were accepted last.
    """
    before = id_of(cursor)
    async with services.database.connection() as connection:
        page, more = await activity.list_activity(connection, caller.account_id, before=before, limit=limit)
    return ActivityPage(entries=page, next_cursor=cursor_of_id(more))


@router.get("/stream", response_class=StreamingResponse, responses=_RESPONSES)
async def get_stream(
    request: Request,
    caller: Owner,
    services: ServicesDep,
    last_event_id: live_events.LastEventId = None,
) -> Response:
    """Get what changes in the account as server-sent events, live: ids and states, once a second at most.

    `open` comes first; `changes` has things with their new states: runs, jobs, runs of monitors, approvals. A
    client that reconnects with `Last-Event-ID` gets what it has missed; `resync` says that this is not known
    any more: read the lists again.
    """
    return live_events.answer_stream(
        services,
        request,
        caller.account_id,
        last_event_id,
        lambda credential: stream(services, credential, caller.account_id, last_event_id),
        ended=False,
    )
