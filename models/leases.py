"""Leases: who may take the runs of a batch forward, and the one statement by which that is written down.

A batch has one executor at a time. It proves that it lives by beats; when it has been silent for
`SILENT_SECONDS`, another one may take over. The executor's id is the fence: every write locks its batch in
share mode and finds its own id there, a take-over locks it exclusively and then puts in another. So a write
that has begun is over before the take-over goes on, and one that begins later writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, Index, Text, text
from sqlmodel import Field, SQLModel

from database import Connection
from models.identifiers import new_id

SILENT_SECONDS = 10
"""A lease may be taken over after so long without a beat."""


class BatchRow(SQLModel, table=True):
    """A batch of runs that were claimed together, and who executes it.

    Attributes:
        executor: whose lease it is; none while nobody has taken it up.
        worker_id: the worker process that it is in.
        started_at: when Temporal had accepted the start of its workflow.
        runs: how many were claimed.
        trigger: what started them, `mixed` if not all by the same.
        parked: no run of it is at work, nor will be: those that it has wait.
        probed_at: when somebody last looked whether its workflow sees to it, or it was claimed.
    """

    __tablename__ = "batches"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_batches_at_work", "account_id", postgresql_where="not parked"),
        Index("ix_batches_lane_id", "lane_id"),
        {"postgresql_with": {"fillfactor": 50}},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    lane_id: int = Field(sa_column=Column(BigInteger, nullable=False))
    executor: UUID | None
    worker_id: UUID | None
    beat_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    runs: int
    trigger: str = Field(sa_type=Text)
    parked: bool = Field(sa_column_kwargs={"server_default": text("false")})
    probed_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )


class Lease(NamedTuple):
    """The right of one executor to one batch."""

    batch_id: UUID
    executor: UUID


class TakenBatch(NamedTuple):
    """A batch that was taken over.

    Attributes:
        was_lost: its executor had fallen silent; else it had let go, or there had been none.
    """

    lease: Lease
    was_lost: bool
    account_id: UUID
    automation_id: UUID
    version: int
    lane_id: int


_TAKE_OVER = """
update batches b set executor = %s, worker_id = %s, beat_at = clock_timestamp(), parked = false
from lanes l where b.id = %s and l.id = b.lane_id
returning b.account_id, l.automation_id, l.version, b.lane_id
"""


async def take_over(connection: Connection, batch_id: UUID, worker_id: UUID) -> TakenBatch | None:
    """Take a batch that nobody executes, or whose executor is silent; None if somebody does.

    Give it no open transaction: what the batch holds is to be read after it, in a statement of its own, so
    that it shows all that the executor before has written.
    """
    lease = Lease(batch_id, new_id())
    async with connection.transaction():
        # Waits for writes that are under way. The time is asked after the wait: a beat may have come.
        cursor = await connection.execute(
            "select executor is not null as was_lost from batches where id = %s and"
            " (executor is null or beat_at < clock_timestamp() - make_interval(secs => %s)) for update",
            (batch_id, SILENT_SECONDS),
        )
        if (found := await cursor.fetchone()) is None:
            return None
        cursor = await connection.execute(_TAKE_OVER, (lease.executor, worker_id, batch_id))
        batch = await cursor.fetchone()
    return TakenBatch(lease, found["was_lost"], **batch) if batch else None


class BatchState(NamedTuple):
    """How a batch stands.

    Attributes:
        at_work: it has runs that neither have ended nor only wait.
        free: nobody executes it, or whoever does is silent.
        seconds: until the first of its runs that wait goes on; None if none waits.
    """

    at_work: bool
    free: bool
    seconds: float | None


_LOOK = """
select exists (select from run_work where batch_id = b.id and status = 'running') as at_work,
  executor is null or beat_at < clock_timestamp() - make_interval(secs => %s) as free,
  (select extract(epoch from min(wake_at) - clock_timestamp())::float from run_work
   where batch_id = b.id and status = 'waiting') as seconds
from batches b where b.id = %s
"""


async def look(connection: Connection, batch_id: UUID) -> BatchState | None:
    """See how a batch stands; None if there is none."""
    cursor = await connection.execute(_LOOK, (SILENT_SECONDS, batch_id))
    row = await cursor.fetchone()
    return BatchState(**row) if row else None


class News(NamedTuple):
    """What others have done to runs that are at work here.

    Attributes:
        gone: they are at work no longer: they have ended, or were cancelled.
        woken: what they wait for has come, or may have.
    """

    gone: set[UUID]
    woken: set[UUID]


async def find_news(connection: Connection, run_ids: Collection[UUID]) -> News:
    """Find out what others have done to these runs."""
    cursor = await connection.execute(
        "select id, w.run_id is null as gone from unnest(%s::uuid[]) as id left join run_work w"
        " on w.run_id = id and w.status = 'running' where w.run_id is null or w.woken",
        (list(run_ids),),
    )
    rows = await cursor.fetchall()
    gone = {row["id"] for row in rows if row["gone"]}
    return News(gone, {row["id"] for row in rows} - gone)


async def renew(connection: Connection, leases: Collection[Lease]) -> set[UUID]:
    """Beat: prove that the executors live. Returns the batches that they still have."""
    ordered = sorted(leases)
    cursor = await connection.execute(
        "update batches set beat_at = clock_timestamp() where (id, executor) in"
        " (select * from unnest(%s::uuid[], %s::uuid[])) returning id",
        ([lease.batch_id for lease in ordered], [lease.executor for lease in ordered]),
    )
    return {row["id"] for row in await cursor.fetchall()}


async def leave(connection: Connection, lease: Lease) -> float | None:
    """Let go of a batch: what is left of it waits. What its executor has dropped goes back to its lane.

    Returns:
        The seconds until the first of that goes on; None if nothing is left, and the batch is gone.
    """
    cursor = await connection.execute(_LEAVE, {"id": lease.batch_id, "executor": lease.executor})
    row = await cursor.fetchone()
    return row["seconds"] if row else None


_LEAVE: LiteralString = """
with left_over as (
  select min(wake_at) as wake_at, count(*) as n from run_work where batch_id = %(id)s and status = 'waiting'
), dropped as (
  update run_work w set status = 'queued', available_at = clock_timestamp(), batch_id = null, wake_at = null
  from batches b where b.id = %(id)s and b.executor = %(executor)s
    and w.batch_id = b.id and w.status = 'running'
), parked as (
  update batches set parked = true, executor = null where id = %(id)s and executor = %(executor)s
    and exists (select from left_over where n > 0)
), gone as (
  delete from batches where id = %(id)s and executor = %(executor)s
    and not exists (select from left_over where n > 0)
)
select extract(epoch from wake_at - clock_timestamp())::float as seconds from left_over
"""
