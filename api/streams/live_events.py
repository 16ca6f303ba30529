"""Server-sent events about an object in progress, until it ends."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

import orjson
import psycopg
from fastapi import Header, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel

import logs
from api.auth.credentials import NO_CREDENTIAL, Presented, find_credential
from api.deps import Services
from api.http.openapi import problems
from api.stream_slots import SlotStream
from models.errors import NotFound, Unauthenticated
from models.views import to_json
from services.run_waiter import Seen

SeenOf = TypeVar("SeenOf", covariant=True)

LastEventId = Annotated[str | None, Header(description="Sent by a client that reconnects.")]
"""The header `Last-Event-ID`."""

END_ID = "end"
"""The id of a stream's last event."""

RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events, until the end.",
        "content": {
            "text/event-stream": {
                "schema": {"description": "Events with `event`, `id` and `data`, which is JSON."}
            }
        },
    },
    204: {"description": "The client has seen the end: do not connect again."},
    **problems("too_many_streams"),
}
"""The responses of routes with such a stream."""

_log = logs.get(__name__)
_HEARTBEAT_SECONDS = 15.0
# The interval at which the credential is checked again.
_CHECK_SECONDS = 1.0
_RECONNECT_MILLISECONDS = 1000


class Source(Protocol[SeenOf]):
    """The source of the findings that a stream tells."""

    async def next(self, seconds: float) -> SeenOf | None:
        """Return a new finding since the last call; None if there is none after `seconds`."""
        ...


class Event(NamedTuple):
    """One event of a stream: its name, its id, and its data."""

    name: str
    id: str
    data: BaseModel


def digest_of(state: Sequence[Any]) -> str:
    """Return an id for a state of JSON."""
    return hashlib.blake2b(orjson.dumps(state), digest_size=12).hexdigest()


def answer_stream(
    services: Services,
    request: Request,
    account_id: UUID,
    seen: str | None,
    open_events: Callable[[Presented], AsyncGenerator[bytes]],
    *,
    ended: bool,
) -> Response:
    """Return the answer with the events of an object; its place is released at its end.

    A client that has seen the end of an object gets 204, so that it does not connect again.

    Args:
        services: of the application.
        request: the client's.
        account_id: the owner of the object.
        seen: the id of the last event that the client has received, or None.
        open_events: makes the events for a client with this credential.
        ended: whether the object has ended.

    Raises:
        TooManyStreams: the account has no place left.
    """
    if ended and seen == END_ID:
        return Response(status_code=204)
    credential = find_credential(request.scope["headers"]) or NO_CREDENTIAL
    place = services.streams.take(account_id)
    headers = {"X-Accel-Buffering": "no"}  # for proxies
    return SlotStream(place, open_events(credential), media_type="text/event-stream", headers=headers)


async def follow(
    services: Services,
    credential: Presented,
    id: UUID,
    watch: AbstractContextManager[Source[Seen]],
    events: Callable[[Seen], tuple[Sequence[Event], bool]],
    heartbeat: bytes = KEEPALIVE_COMMENT,
) -> AsyncGenerator[bytes]:
    """Yield the events as they are found. It stops early when the credential, database or object is gone.

    Args:
        services: of the application.
        credential: the client's credential.
        id: of the followed object.
        watch: yields new findings about it.
        events: converts a finding to events, and returns whether they are the last.
        heartbeat: sent after 15 seconds without an event.
    """
    loop = asyncio.get_running_loop()
    sent = loop.time()
    yield format_sse_event(retry=_RECONNECT_MILLISECONDS)
    try:
        with watch as watcher:
            while not services.waiter.closed:
                await services.credentials.find(credential)
                seen = await watcher.next(min(_CHECK_SECONDS, _HEARTBEAT_SECONDS))
                news, ended = ((), False) if seen is None else events(seen)
                for event in news:
                    data = to_json(event.data).decode()
                    yield format_sse_event(event=event.name, data_str=data, id=event.id)
                    sent = loop.time()
                if ended:
                    return
                if loop.time() - sent >= _HEARTBEAT_SECONDS:
                    yield heartbeat
                    sent = loop.time()
    except (NotFound, Unauthenticated):
        return
    except psycopg.Error as error:
        _log.warning("stream_cut", id=str(id), error=type(error).__name__)
