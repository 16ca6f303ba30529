"""A run as it is now, and as a stream of server-sent events until it ends.

A stream's ids encode the state of the run that the client saw, so the server stores nothing about it: a
client that reconnects with its last id gets the current run, unless that is the one it saw.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple
from uuid import UUID

from api.auth.credentials import Presented
from api.deps import Services
from api.schemas.resume_urls import with_resume_urls
from api.streams.live_events import END_ID, Event, digest_of, follow
from models.runs import runs
from models.runs.run_views import RunView, StepView
from models.runs.runs import Pulse
from services.run_waiter import Watcher

# A state that lasts a second is noticed, such as a delay or an attempt.
_LOOK_SECONDS = 0.5
ROOM = 256 * 1024
"""The size limit of inputs and outputs in a watched run, as JSON."""


class SeenRun(NamedTuple):
    """A run at the time of a read."""

    pulse: Pulse
    view: RunView


def watch(services: Services, account_id: UUID, run_id: UUID) -> AbstractContextManager[Watcher[SeenRun]]:
    """Watch a run; its row is read again only when something has changed."""

    async def look(last: SeenRun | None) -> SeenRun | None:
        async with services.database.connection() as connection:
            pulse = await runs.get_pulse(connection, account_id, run_id)
            if last is not None and last.pulse == pulse:
                return last
            found = await runs.get(connection, account_id, run_id, room=ROOM)
        return SeenRun(pulse, with_resume_urls(services, found))

    return services.waiter.watch(("run", account_id, run_id), run_id, look, lambda: _LOOK_SECONDS)


def stream(
    services: Services, credential: Presented, account_id: UUID, run_id: UUID, seen: str | None
) -> AsyncGenerator[bytes]:
    """Return the events of a run until it ends.

    Args:
        services: of the application.
        credential: the client's credential.
        account_id: the owner of the run.
        run_id: the run.
        seen: the id of the last event that the client has received, or None.
    """
    shown: RunView | None = None

    def events(found: SeenRun) -> tuple[Sequence[Event], bool]:
        nonlocal shown
        before, shown = shown, found.view
        news = [event for event in changes(before, shown) if before is not None or event.id != seen]
        return news, shown.completed_at is not None

    return follow(services, credential, run_id, watch(services, account_id, run_id), events)


def changes(shown: RunView | None, view: RunView) -> Iterator[Event]:
    """Yield the events for a client that has seen the run as `shown`; an id includes its own event."""
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
    """Return a digest of the state: everything else in a run changes only along with these members."""
    state = [status, *((step.status, step.attempts, step.started_at, step.completed_at) for step in steps)]
    return digest_of(state)
