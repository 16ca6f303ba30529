"""A run as it is at this moment, and as a stream of server-sent events until it ends.

A stream's ids say in which state the client saw the run, and nothing has to be remembered about it: one
that comes back with its last id gets the run as it is now, unless that is what it has seen.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterator
from typing import NamedTuple
from uuid import UUID

import orjson
import psycopg
import psycopg_pool
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

import logs
from api.deps import Services
from api.waiting import woken
from models import runs
from models.errors import NotFound, Unauthenticated
from models.run_views import RunView, StepView
from models.runs import Pulse

END_ID = "end"
"""The id of a stream's last event."""

_log = logs.get(__name__)
# What lasts a second is seen: a delay, or an attempt.
_LOOK_SECONDS = 0.5
_HEARTBEAT_SECONDS = 15.0
_RECONNECT_MILLISECONDS = 1000


class Event(NamedTuple):
    """One event of a stream: its name, its id, and what it carries."""

    name: str
    id: str
    data: RunView | StepView


class _Watch:
    """What has been seen of a run: its row is read again only when something has changed."""

    def __init__(self, services: Services, account_id: UUID, run_id: UUID) -> None:
        self._services = services
        self._account_id = account_id
        self._run_id = run_id
        self._seen: Pulse | None = None

    async def look(self) -> RunView | None:
        """The run object; None if it is as it was."""
        async with self._services.database.connection() as connection:
            pulse = await runs.pulse(connection, self._account_id, self._run_id)
            if self._seen == pulse:
                return None
            self._seen = pulse
            return await runs.get(connection, self._account_id, self._run_id)


async def stream(
    services: Services, token: str, account_id: UUID, run_id: UUID, seen: str | None
) -> AsyncGenerator[bytes]:
    """The events of a run until it ends. It stops early when the credential, the run or the database is gone.

    Args:
        services: of the application.
        token: the client's credential.
        account_id: whose run it is.
        run_id: the run.
        seen: the id of the last event that the client has seen, if it has.
    """
    loop = asyncio.get_running_loop()
    watch, shown, sent = _Watch(services, account_id, run_id), None, loop.time()
    yield format_sse_event(retry=_RECONNECT_MILLISECONDS)
    try:
        with services.waiter.watching(run_id) as finished:
            while True:
                await services.credentials.find(token)
                view = await watch.look()
                for event in changes(shown, view) if view else ():
                    if shown is not None or event.id != seen:
                        yield _written(event)
                        sent = loop.time()
                shown = view or shown
                ended = shown is not None and shown.completed_at is not None
                if ended or services.waiter.closed:
                    return
                if loop.time() - sent >= _HEARTBEAT_SECONDS:
                    yield KEEPALIVE_COMMENT
                    sent = loop.time()
                await woken(finished, _LOOK_SECONDS)
    except (NotFound, Unauthenticated):
        return
    except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
        _log.warning("stream_cut", run_id=str(run_id), error=type(error).__name__)


def changes(shown: RunView | None, view: RunView) -> Iterator[Event]:
    """What to tell a client that knows the run as `shown`; an id names the state with that event taken in."""
    ended = view.completed_at is not None
    if shown is None or (view.status != shown.status and not ended):
        yield Event("run", _state_id(view.status, view.steps), view)
    else:
        steps = list(shown.steps)
        for position, step in enumerate(view.steps):
            if step != steps[position]:
                steps[position] = step
                yield Event("step", _state_id(shown.status, steps), step)
    if ended:
        yield Event("end", END_ID, view)


def _state_id(status: str, steps: list[StepView]) -> str:
    """A digest of the state: what else a run has only changes along with these."""
    state = [status, *((step.status, step.attempts, step.started_at, step.completed_at) for step in steps)]
    return hashlib.blake2b(orjson.dumps(state), digest_size=12).hexdigest()


def _written(event: Event) -> bytes:
    return format_sse_event(event=event.name, data_str=event.data.model_dump_json(), id=event.id)
