"""What happens in the account, live."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from api.auth.credentials import NO_CREDENTIAL, presented
from api.deps import Caller, ServicesDep, authorised
from api.http.strict_route import StrictRoute
from api.streams import live_events
from api.streams.account_events import stream

router = APIRouter(prefix="/api", tags=["service"], route_class=StrictRoute)

Owner = Annotated[Caller, authorised("workflows")]
_RESPONSES = {status: response for status, response in live_events.RESPONSES.items() if status != 204}


@router.get("/stream", response_class=StreamingResponse, responses=_RESPONSES)
async def get_stream(
    request: Request,
    caller: Owner,
    services: ServicesDep,
    last_event_id: Annotated[str | None, Header(description="Sent by a client that reconnects.")] = None,
) -> StreamingResponse:
    """Get what changes in the account as server-sent events, live: ids and states, once a second at most.

    `open` comes first; `changes` has things with their new states: runs, jobs, runs of monitors, approvals. A
    client that reconnects with `Last-Event-ID` gets what it has missed; `resync` says that this is not known
    any more: read the lists again.
    """
    credential = presented(request.scope["headers"]) or NO_CREDENTIAL
    place = services.streams.take(caller.account_id)
    return live_events.streamed(place, stream(services, credential, caller.account_id, last_event_id))
