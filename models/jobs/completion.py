"""The end of a job: its credits are settled and its event emitted, once, by the first caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.credits import credits
from models.credits.credits import Booking
from models.errors import NotFound
from models.events import events
from models.events.event_data import BulkJobCompleted, BulkJobFailed, Failure
from models.jobs.acceptance import hold_reference


async def finish(connection: Connection, job_id: UUID, error: Mapping[str, str] | None = None) -> bool:
    """End a job that is under way; call it in a transaction, and wake the delivery dispatchers after it.

    The job has failed if there is an error, or if none of its targets could be looked up; else it is
    completed.

    Returns:
        Whether this call ended it; False if it had ended before.
    """
    job = await _lock(connection, job_id)
    if job is None or job["completed_at"] is not None:
        return False
    if error is None and job["queries"] and job["failed_rows"] == job["total_rows"]:
        error = {"code": "all_rows_failed", "message": "None of the rows could be looked up."}
    job = await _end(connection, job, "completed" if error is None else "failed", error)
    await events.emit(connection, job["account_id"], _event(job, error))
    return True


def _event(job: Mapping[str, Any], error: Mapping[str, str] | None) -> BulkJobCompleted:
    took = job["completed_at"] - (job["started_at"] or job["created_at"])
    told: dict[str, Any] = {
        "job_id": job["id"],
        "succeeded_rows": job["processed_rows"] - job["failed_rows"],
        "duration_ms": max(0, round(took.total_seconds() * 1000)),
        **{name: job[name] for name in _TOLD},
    }
    return BulkJobCompleted(**told) if error is None else BulkJobFailed(**told, error=Failure(**error))


_TOLD = ("name", "type", "total_rows", "processed_rows", "failed_rows", "credits_used")


async def cancel(connection: Connection, actor: Actor, job_id: UUID) -> None:
    """Cancel a job that has not ended; call it in a transaction.

    Results so far stay, and are paid. A worker of the job notices the cancellation at its next write.

    Raises:
        NotFound: the job is unknown, or another account's.
    """
    await _cancel(connection, await _lock_own(connection, actor, job_id), actor)


async def delete(connection: Connection, actor: Actor, job_id: UUID) -> None:
    """Delete a job, and cancel it first if it has not ended; call it in a transaction.

    From now on it is hidden. Its rows are deleted by `cleanup.purge` later.

    Raises:
        NotFound: the job is unknown, or another account's.
    """
    job = await _lock_own(connection, actor, job_id)
    await _cancel(connection, job, actor)
    await connection.execute("update jobs set deleted_at = now() where id = %s", (job_id,))
    await audit.record(connection, actor, "job.deleted", Target("job", job_id, job["name"]))


async def _cancel(connection: Connection, job: Mapping[str, Any], actor: Actor) -> None:
    if job["completed_at"] is None:
        await _end(connection, job, "cancelled", None)
        await audit.record(connection, actor, "job.cancelled", Target("job", job["id"], job["name"]))


async def _lock_own(connection: Connection, actor: Actor, job_id: UUID) -> dict[str, Any]:
    job = await _lock(connection, job_id)
    if job is None or job["account_id"] != actor.account_id or job["deleted_at"] is not None:
        raise NotFound("job")
    return job


async def _lock(connection: Connection, job_id: UUID) -> dict[str, Any] | None:
    """Return the job, locked against changes until the transaction ends."""
    cursor = await connection.execute("select * from jobs where id = %s for no key update", (job_id,))
    return await cursor.fetchone()


async def _end(
    connection: Connection, job: Mapping[str, Any], status: str, error: Mapping[str, str] | None
) -> dict[str, Any]:
    cursor = await connection.execute(
        "update jobs set status = %s, error = %s, completed_at = clock_timestamp() where id = %s returning *",
        (status, None if error is None else orjson.dumps(error).decode(), job["id"]),
    )
    ended = await cursor.fetchone()
    assert ended is not None
    await connection.execute("delete from job_chunks where job_id = %s", (job["id"],))
    if ended["credits_held"]:
        reference, used = hold_reference(job["id"]), ended["credits_used"]
        what = "Rows that were answered"
        await credits.settle(
            connection, Booking(job["account_id"], used, reference, what, key_id=ended["key_id"])
        )
    return ended
