"""Jobs at work: claimed, their targets looked up, the results recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel

from database import Connection
from models.credits import paid_blocks
from models.jobs import acceptance
from models.jobs.jobs import STILL_SECONDS, JobType
from models.work_queue import AccountQueue

_PACE_SECONDS = 10
"""The time between the two records of progress from which the pace is computed."""


class JobAnswer(SQLModel, table=True):
    """The result of looking up one target.

    Attributes:
        query: the number of the target in the job.
        data: None if it could not be looked up.
        partial: whether some source did not answer.
        error: why it could not be looked up.
    """

    __tablename__ = "job_answers"  # pyright: ignore[reportAssignmentType]

    job_id: UUID = Field(primary_key=True)
    query: int = Field(primary_key=True)
    data: Any = Field(sa_column=Column(JSON))
    partial: bool
    error: Any = Field(sa_column=Column(JSON))


class Claimed(NamedTuple):
    """A claimed job, whose workflow must be started."""

    job_id: UUID
    account_id: UUID
    queries: int


JOBS = AccountQueue(
    name="jobs",
    columns="id as job_id, account_id, queries",
    claimed=Claimed,
    lock=0x6A6F6273,
    waits="coalesce(resumes_at > clock_timestamp()"
    " and progressed_at < clock_timestamp() - make_interval(secs => %(still)s), false)",
    begins=", progressed_at = m.now, paced_at = m.now, mark_at = m.now, processed_rows = invalid_rows,"
    " failed_rows = invalid_rows, paced_rows = invalid_rows, mark_rows = invalid_rows",
)


class TargetRow(NamedTuple):
    """A target to look up: its number in the job, its text, and the number of rows with it."""

    number: int
    target: str
    row_count: int


@dataclass(frozen=True)
class Chunk:
    """The targets of a chunk that have no answer yet.

    Attributes:
        fields: the dotted fields to return; None for all.
        idle_seconds: the time spent waiting without progress, not counting time without a worker.
    """

    job_id: UUID
    account_id: UUID
    type: JobType
    fields: frozenset[str] | None
    idle_seconds: float
    targets: Sequence[TargetRow]


@dataclass(frozen=True)
class RowAnswer:
    """The result of looking up one target; texts are JSON.

    Attributes:
        row_count: the number of rows with the target.
        data: None if it could not be looked up.
        error: None if it could be looked up.
        credits: its price.
        block: the account, the kind and the hash of the query, if blocks of results are paid.
        given_up: whether waiting for some source was given up.
    """

    job_id: UUID
    number: int
    row_count: int
    data: str | None = None
    partial: bool = False
    error: str | None = None
    credits: int = 0
    block: tuple[UUID, str, bytes] | None = None
    given_up: bool = False

    @property
    def size(self) -> int:
        """The approximate size in characters."""
        return len(self.data or "")


async def claim(connection: Connection, room: int) -> list[Claimed]:
    """Claim queued jobs, as `AccountQueue.claim` does; a job that waits for its sources takes no room."""
    return await JOBS.claim(connection, room, still=STILL_SECONDS)


_OPEN: LiteralString = """
select j.id as job_id, j.account_id, j.type, j.fields, c.targets, c.row_counts,
  extract(epoch from least(clock_timestamp(), greatest(j.resumes_at, j.progressed_at))
    - j.progressed_at)::float as idle_seconds
from jobs j left join job_chunks c on c.job_id = j.id and c.number = %(number)s
where j.id = %(job_id)s and j.status = 'running'
"""


async def open_chunk(connection: Connection, job_id: UUID, number: int) -> Chunk | None:
    """Return the targets of a chunk that have no answer yet; None if the job has ended."""
    cursor = await connection.execute(_OPEN, {"job_id": job_id, "number": number})
    row = await cursor.fetchone()
    if row is None:
        return None
    targets: list[str] = row.pop("targets") or []
    row_counts: list[int] = row.pop("row_counts") or []
    first = number * acceptance.CHUNK
    cursor = await connection.execute(
        "select query from job_answers where job_id = %s and query >= %s and query < %s",
        (job_id, first, first + len(targets)),
    )
    done = {one["query"] for one in await cursor.fetchall()}
    left = [
        TargetRow(first + place, target, row_count)
        for place, (target, row_count) in enumerate(zip(targets, row_counts, strict=True))
        if first + place not in done
    ]
    fields = row.pop("fields")
    return Chunk(**row, fields=None if fields is None else frozenset(fields), targets=left)


async def close_chunk(connection: Connection, job_id: UUID, number: int) -> None:
    """Delete a chunk whose targets all have an answer."""
    await connection.execute("delete from job_chunks where job_id = %s and number = %s", (job_id, number))


async def mark_waiting(connection: Connection, job_id: UUID, seconds: float) -> None:
    """Record for how long the sources of a job make it wait."""
    await connection.execute(
        "update jobs set resumes_at = clock_timestamp() + make_interval(secs => %s)"
        " where id = %s and status = 'running'",
        (seconds, job_id),
    )


async def restart_pace(connection: Connection, job_id: UUID) -> None:
    """Measure the pace of a job from now on, because its sources have become slower."""
    await connection.execute(
        "update jobs set paced_at = m.now, paced_rows = processed_rows, mark_at = m.now,"
        " mark_rows = processed_rows from (select clock_timestamp() as now) m"
        " where id = %s and status = 'running'",
        (job_id,),
    )


_RECORD: LiteralString = """
with given as (
  select * from unnest(%(job_ids)s::uuid[], %(numbers)s::int[], %(row_counts)s::int[], %(data)b::json[],
    %(partial)s::bool[], %(errors)b::json[], %(credits)s::int[], %(given_up)s::bool[])
    as g (job_id, query, row_count, data, partial, error, credits, given_up)
), recorded as (
  insert into job_answers (job_id, query, data, partial, error)
  select job_id, query, data, partial, error from given on conflict do nothing returning job_id, query
), counted as (
  select job_id, sum(row_count) as processed, coalesce(sum(row_count) filter (where error is not null), 0)
    as failed, sum(credits) as credits, not bool_and(given_up) as progressed
  from given join recorded using (job_id, query) group by job_id
)
update jobs j set processed_rows = j.processed_rows + c.processed, failed_rows = j.failed_rows + c.failed,
  credits_used = least(j.credits_held, j.credits_used + c.credits),
  progressed_at = case when c.progressed then m.now else j.progressed_at end,
  resumes_at = case when c.progressed then j.resumes_at else greatest(j.resumes_at, m.now) end,
  paced_at = case when j.mark_at < m.turn then j.mark_at else j.paced_at end,
  paced_rows = case when j.mark_at < m.turn then j.mark_rows else j.paced_rows end,
  mark_at = case when j.mark_at < m.turn then m.now else j.mark_at end,
  mark_rows = case when j.mark_at < m.turn then j.processed_rows else j.mark_rows end
from counted c, (
  select clock_timestamp() as now, clock_timestamp() - make_interval(secs => %(pace)s) as turn
) m
where j.id = c.job_id
"""


async def record(connection: Connection, found: Sequence[RowAnswer]) -> list[bool]:
    """Record results, each once; call it in a transaction.

    Returns:
        Whether the job of each result is still running; results of other jobs are not recorded.
    """
    cursor = await connection.execute(
        "select id from jobs where id = any(%s) and status = 'running' order by id for no key update",
        (list({one.job_id for one in found}),),
    )
    running = {row["id"] for row in await cursor.fetchall()}
    # Two attempts at a chunk, one of which was thought lost, may record the same target. Blocks are claimed
    # in one order, so that two transactions cannot deadlock.
    once = {(one.job_id, one.number): one for one in found if one.job_id in running}
    given = sorted(once.values(), key=lambda one: str(one.block))
    if given:
        columns: dict[str, Any] = {
            "job_ids": [one.job_id for one in given],
            "numbers": [one.number for one in given],
            "row_counts": [one.row_count for one in given],
            "data": [one.data for one in given],
            "partial": [one.partial for one in given],
            "errors": [one.error for one in given],
            "credits": [await _price(connection, one) for one in given],
            "given_up": [one.given_up for one in given],
            "pace": _PACE_SECONDS,
        }
        await connection.execute(_RECORD, columns)
    return [one.job_id in running for one in found]


async def _price(connection: Connection, found: RowAnswer) -> int:
    """Return the price now: 0 if the block of results was paid within a day."""
    if not found.credits or found.block is None or await paid_blocks.claim(connection, *found.block, 0):
        return found.credits
    return 0
