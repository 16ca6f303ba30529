"""A bulk job as a stream of server-sent events until it ends: `progress` with the job, at last `end`.

An event's id encodes the progress, so that a client that reconnects gets only new events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager
from uuid import UUID

from api.auth.credentials import Presented
from api.deps import Services
from api.streams.live_events import END_ID, Event, digest_of, follow
from models.jobs import jobs
from models.jobs.jobs import JobView
from services.run_waiter import Watcher

# Every recorded answer causes a notification: clients get at most a few events a second.
_PAUSE_SECONDS = 0.2
_LOOK_SECONDS = 2.0


def watch(services: Services, account_id: UUID, job_id: UUID) -> AbstractContextManager[Watcher[JobView]]:
    """Watch a job, at most a few times a second."""
    loop = asyncio.get_running_loop()
    next_look = 0.0

    async def look(last: JobView | None) -> JobView | None:
        nonlocal next_look
        await asyncio.sleep(max(0.0, next_look - loop.time()))
        next_look = loop.time() + _PAUSE_SECONDS
        async with services.database.connection() as connection:
            job = await jobs.get(connection, account_id, job_id)
        return last if last is not None and _state_id(last) == _state_id(job) else job

    return services.waiter.watch(("job", account_id, job_id), job_id, look, lambda: _LOOK_SECONDS)


def stream(
    services: Services, credential: Presented, account_id: UUID, job_id: UUID, seen: str | None
) -> AsyncGenerator[bytes]:
    """Return the events of a job until it ends.

    Args:
        services: of the application.
        credential: the client's credential.
        account_id: the owner of the job.
        job_id: the job.
        seen: the id of the last event that the client has received, or None.
    """

    def events(job: JobView) -> tuple[Sequence[Event], bool]:
        if job.completed_at is not None:
            return [Event("end", END_ID, job)], True
        id = _state_id(job)
        return [] if id == seen else [Event("progress", id, job)], False

    return follow(services, credential, job_id, watch(services, account_id, job_id), events)


def _state_id(job: JobView) -> str:
    """Return a digest of all but the purely time-dependent members."""
    return digest_of([job.status, job.processed_rows, job.failed_rows, job.credits_used, job.resumes_at])
