"""A bulk job as a stream of server-sent events until it ends: `progress` with the job, at last `end`.

An event's id says how far the job was, so that a client that comes back is told what it has not seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from uuid import UUID

from api.deps import Services
from api.live_events import END_ID, Event, digest_of, follow
from models.jobs import jobs
from models.jobs.jobs import JobView

# Every answer that is recorded is notified: a client is told of them some times a second.
_PAUSE_SECONDS = 0.2
_LOOK_SECONDS = 2.0


class _Watch:
    """What a client has been told of a job."""

    def __init__(self, services: Services, account_id: UUID, job_id: UUID, seen: str | None) -> None:
        self._services = services
        self._account_id = account_id
        self._job_id = job_id
        self._seen = seen
        self._next_look = 0.0

    async def look(self) -> tuple[Sequence[Event], bool]:
        """The job if it has got further, and whether it has ended."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._next_look - loop.time()))
        self._next_look = loop.time() + _PAUSE_SECONDS
        async with self._services.database.connection() as connection:
            job = await jobs.get(connection, self._account_id, self._job_id)
        if job.completed_at is not None:
            return [Event("end", END_ID, job)], True
        if (id := _state_id(job)) == self._seen:
            return (), False
        self._seen = id
        return [Event("progress", id, job)], False


def stream(
    services: Services, token: str, account_id: UUID, job_id: UUID, seen: str | None
) -> AsyncGenerator[bytes]:
    """The events of a job until it ends.

    Args:
        services: of the application.
        token: the client's credential.
        account_id: whose job it is.
        job_id: the job.
        seen: the id of the last event that the client has seen, if it has.
    """
    watch = _Watch(services, account_id, job_id, seen)
    return follow(services, token, job_id, watch.look, _LOOK_SECONDS)


def _state_id(job: JobView) -> str:
    """A digest of what changes but with time alone."""
    return digest_of([job.status, job.processed_rows, job.failed_rows, job.credits_used, job.resumes_at])
