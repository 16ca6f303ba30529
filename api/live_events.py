"""Server-sent events about something that goes on, until it ends."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import psycopg
import psycopg_pool
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel

import logs
from api.deps import Services
from api.waiting import woken
from models.errors import NotFound, Unauthenticated

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
}
"""What routes with such a stream answer."""

_log = logs.get(__name__)
_HEARTBEAT_SECONDS = 15.0
_RECONNECT_MILLISECONDS = 1000


class Event(NamedTuple):
    """One event of a stream: its name, its id, and what it carries."""

    name: str
    id: str
    data: BaseModel


Look = Callable[[], Awaitable[tuple[Sequence[Event], bool]]]
"""Gives the events since the last look, and whether these are all that there will be."""


def digest_of(state: Sequence[Any]) -> str:
    """An id for a state, of JSON."""
    return hashlib.blake2b(orjson.dumps(state), digest_size=12).hexdigest()


def streamed(events: AsyncGenerator[bytes]) -> StreamingResponse:
    """The answer with these events; proxies hand them on at once."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def follow(
    services: Services, token: str, id: UUID, look: Look, seconds: float
) -> AsyncGenerator[bytes]:
    """The events as they are found. It stops early when the credential, the database or the thing is gone.

    Args:
        services: of the application.
        token: the client's credential.
        id: of what is followed; a notification about it leads to a look at once.
        look: finds events.
        seconds: after which it looks without having been notified.
    """
    loop = asyncio.get_running_loop()
    sent = loop.time()
    yield format_sse_event(retry=_RECONNECT_MILLISECONDS)
    try:
        with services.waiter.watching(id) as notified:
            while True:
                await services.credentials.find(token)
                events, ended = await look()
                for event in events:
                    yield format_sse_event(
                        event=event.name, data_str=event.data.model_dump_json(), id=event.id
                    )
                    sent = loop.time()
                if ended or services.waiter.closed:
                    return
                if loop.time() - sent >= _HEARTBEAT_SECONDS:
                    yield KEEPALIVE_COMMENT
                    sent = loop.time()
                await woken(notified, seconds)
    except (NotFound, Unauthenticated):
        return
    except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
        _log.warning("stream_cut", id=str(id), error=type(error).__name__)
