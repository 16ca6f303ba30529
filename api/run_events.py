"""A run as it is at this moment, and as a stream of server-sent events until it ends.

A stream's ids say in which state the client saw the run, and nothing has to be remembered about it: one
that comes back with its last id gets the run as it is now, unless that is what it has seen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from uuid import UUID

from api.deps import Services
from api.live_events import END_ID, Event, digest_of, follow
from api.resume_urls import with_resume_urls
from models import runs
from models.run_views import RunView, StepView
from models.runs import Pulse

# What lasts a second is seen: a delay, or an attempt.
_LOOK_SECONDS = 0.5


class _Watch:
    """What has been seen of a run: its row is read again only when something has changed."""

    def __init__(self, services: Services, account_id: UUID, run_id: UUID, seen: str | None) -> None:
        self._services = services
        self._account_id = account_id
        self._run_id = run_id
        self._seen = seen
        self._pulse: Pulse | None = None
        self._shown: RunView | None = None

    async def look(self) -> tuple[Sequence[Event], bool]:
        """What has happened to the run since the last look, and whether it has ended."""
        async with self._services.database.connection() as connection:
            pulse = await runs.pulse(connection, self._account_id, self._run_id)
            if self._pulse == pulse:
                return (), False
            self._pulse = pulse
            found = await runs.get(connection, self._account_id, self._run_id)
        view = with_resume_urls(self._services, found)
        events = [
            event for event in changes(self._shown, view) if self._shown is not None or event.id != self._seen
        ]
        self._shown = view
        return events, view.completed_at is not None


def stream(
    services: Services, token: str, account_id: UUID, run_id: UUID, seen: str | None
) -> AsyncGenerator[bytes]:
    """The events of a run until it ends.

    Args:
        services: of the application.
        token: the client's credential.
        account_id: whose run it is.
        run_id: the run.
        seen: the id of the last event that the client has seen, if it has.
    """
    watch = _Watch(services, account_id, run_id, seen)
    return follow(services, token, run_id, watch.look, _LOOK_SECONDS)


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
    return digest_of(state)
