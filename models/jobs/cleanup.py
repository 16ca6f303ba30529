"""The cleanup of jobs: those that were deleted, and those that are too old."""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from database import Connection

_AT_ONCE = 5_000

_LEFT: tuple[LiteralString, ...] = (
    "delete from job_answers where job_id = %(job_id)s and query in (select query from job_answers"
    " where job_id = %(job_id)s order by query limit %(limit)s for update skip locked)",
    "delete from job_rows where job_id = %(job_id)s and position in (select position from job_rows"
    " where job_id = %(job_id)s order by position limit %(limit)s for update skip locked)",
)
# Rows that another worker has locked were skipped; they are still here if that worker fails.
_JOB: LiteralString = """
delete from jobs where id = %(job_id)s and deleted_at is not null
  and not exists (select from job_answers where job_id = %(job_id)s)
  and not exists (select from job_rows where job_id = %(job_id)s)
"""


async def hide_old(connection: Connection, kept_days: int) -> int:
    """Mark jobs that ended longer ago than `kept_days` as deleted; return their number."""
    cursor = await connection.execute(
        "update jobs set deleted_at = now() where deleted_at is null and completed_at is not null"
        " and completed_at < now() - make_interval(days => %s)",
        (kept_days,),
    )
    return cursor.rowcount


async def find_deleted(connection: Connection, limit: int = 20) -> list[UUID]:
    """Return deleted jobs of which rows are left."""
    cursor = await connection.execute(
        "select id from jobs where deleted_at is not null order by id limit %s", (limit,)
    )
    return [row["id"] for row in await cursor.fetchall()]


async def purge(connection: Connection, job_id: UUID) -> None:
    """Delete the rows of a deleted job in batches, each committed, and then the job itself."""
    for statement in _LEFT:
        deleted = _AT_ONCE
        while deleted == _AT_ONCE:
            cursor = await connection.execute(statement, {"job_id": job_id, "limit": _AT_ONCE})
            deleted = cursor.rowcount
    await connection.execute(_JOB, {"job_id": job_id})
