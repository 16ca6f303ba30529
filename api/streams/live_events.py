"""Server-sent events about an object in progress, until it ends."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import psycopg
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel

import logs
from api.deps import Services
from api.http.openapi import problems
from api.stream_slots import SlotStream, StreamSlot
from models.errors import NotFound, Unauthenticated
from models.views import to_json
from services.run_waiter import Seen, Watcher

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


class Event(NamedTuple):
    """One event of a stream: its name, its id, and its data."""

    name: str
    id: str
    data: BaseModel


def digest_of(state: Sequence[Any]) -> str:
    """Return an id for a state of JSON."""
    return hashlib.blake2b(orjson.dumps(state), digest_size=12).hexdigest()


def stream_events(place: StreamSlot, events: AsyncGenerator[bytes]) -> StreamingResponse:
    """Return the answer with these events; proxies must not buffer them. It releases the place at its end."""
    headers = {"X-Accel-Buffering": "no"}
    return SlotStream(place, events, media_type="text/event-stream", headers=headers)


async def follow(
    services: Services,
    token: str,
    id: UUID,
    watch: AbstractContextManager[Watcher[Seen]],
    events: Callable[[Seen], tuple[Sequence[Event], bool]],
) -> AsyncGenerator[bytes]:
    """Yield the events as they are found. It stops early when the credential, database or object is gone.

    Args:
        services: of the application.
        token: the client's credential.
        id: of the followed object.
        watch: yields new findings about it.
        events: converts a finding to events, and returns whether they are the last.
    """
    loop = asyncio.get_running_loop()
    sent = loop.time()
    yield format_sse_event(retry=_RECONNECT_MILLISECONDS)
    try:
        with watch as watcher:
            while not services.waiter.closed:
                await services.credentials.find(token)
                seen = await watcher.next(min(_CHECK_SECONDS, _HEARTBEAT_SECONDS))
                news, ended = ((), False) if seen is None else events(seen)
                for event in news:
                    data = to_json(event.data).decode()
                    yield format_sse_event(event=event.name, data_str=data, id=event.id)
                    sent = loop.time()
                if ended:
                    return
                if loop.time() - sent >= _HEARTBEAT_SECONDS:
                    yield KEEPALIVE_COMMENT
                    sent = loop.time()
    except (NotFound, Unauthenticated):
        return
    except psycopg.Error as error:
        _log.warning("stream_cut", id=str(id), error=type(error).__name__)
