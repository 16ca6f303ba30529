"""Work: a narrow row for each run that has not ended, which is gone at its end.

A run is `queued` in its lane, `running` in the batch that has claimed it, or `waiting` until something that
it waits for happens. Whatever ends a wait does the same to the row: it is queued again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    SmallInteger,
    Text,
    text,
)
from sqlmodel import Field, SQLModel

from database import Connection
from models.lanes import INTERACTIVE
from models.leases import Lease

MAX_ROWS = 256
MAX_BYTES = 4 * 1024 * 1024
"""How many runs are claimed at a time at most, and how much they were started with."""
ACCOUNT_WINDOW = 512
"""How many runs of an account are at work at a time."""
_OVERDUE_SECONDS = 30


class RunWork(SQLModel, table=True):
    """A run that has not ended.

    Attributes:
        begun: it has been claimed before.
        available_at: since when it may be claimed.
        bytes: of what it was started with, as JSON.
        batch_id: the batch whose executor has it, or whose workflow has its timer.
        wake_at: when it goes on by itself, if it only waits.
        woken: somebody wants it to go on before: who would park it queues it instead.
        progress: see `language.progress`.
        lost: how often in a row it was lost with its executor.
        setbacks: our code's failures with it: since when, how often, and of which builds.
        parent_run_id: the run whose step it is.
        upload_id: the upload that it is a row of.
    """

    __tablename__ = "run_work"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('queued', 'running', 'waiting')", name="status"),
        Index("ix_run_work_account_id_run_id", "account_id", "run_id"),
        Index("ix_run_work_batch", "batch_id", postgresql_where="batch_id is not null"),
        Index(
            "ix_run_work_queued", "lane_id", "begun", "available_at", "run_id",
            postgresql_where="status = 'queued'",
        ),
        Index("ix_run_work_wake", "wake_at", postgresql_where="status = 'waiting'"),
        Index("ix_run_work_parent_run_id", "parent_run_id", postgresql_where="parent_run_id is not null"),
        Index("ix_run_work_upload_id", "upload_id", postgresql_where="upload_id is not null"),
        {"postgresql_with": {"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.01}},
    )  # fmt: skip

    run_id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), nullable=False)
    )
    lane_id: int = Field(sa_column=Column(ForeignKey("lanes.id", ondelete="CASCADE"), nullable=False))
    status: str = Field(sa_type=Text)
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    begun: bool
    available_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    bytes: int
    batch_id: UUID | None
    wake_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    woken: bool = Field(sa_column_kwargs={"server_default": text("false")})
    progress: Any = Field(sa_column=Column(JSON))
    lost: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default="0"))
    setbacks: Any = Field(sa_column=Column(JSON))
    parent_run_id: UUID | None
    upload_id: UUID | None


@dataclass(frozen=True)
class ClaimedRun:
    """A run as its rows have it, to be taken forward.

    Attributes:
        size: of trigger and request together, in bytes of JSON; where they are large, they stay in the row.
        recorded: there may be records of its steps.
        progress: of the steps that have begun, as `language.progress` writes it.
        unloaded: trigger and request are not kept in memory: whoever needs them reads the row.
        queued_at: when it was accepted.
        parent_run_id: the run whose step it is.
    """

    run_id: UUID
    started_at: datetime
    trigger: Any
    request: Any
    size: int
    recorded: bool
    progress: Mapping[str, Any] | None
    unloaded: bool = False
    queued_at: datetime | None = None
    parent_run_id: UUID | None = None


@dataclass(frozen=True)
class Claim:
    """Runs of one lane, claimed together.

    Attributes:
        lease: of the batch that they are; the claim counts as its first beat.
        joined: it was open before.
        trigger: what started them, `mixed` if not all by the same.
        was_aside: the lane had been set aside.
        asked_at: by the database's clock.
        last_begun: the `available_at` of the last of these runs that had begun; None if none had.
        last_new: the same of those that had not.
    """

    lease: Lease
    joined: bool
    account_id: UUID
    automation_id: UUID
    version: int
    lane_id: int
    priority: int
    trigger: str
    runs: list[ClaimedRun]
    was_aside: bool
    asked_at: datetime
    last_begun: datetime | None
    last_new: datetime | None


@dataclass(frozen=True)
class LaneMark:
    """From where on a lane has work: of runs that have begun, and of those that have not."""

    lane_id: int
    begun_from: datetime
    new_from: datetime


async def claim(
    connection: Connection,
    lease: Lease,
    worker_id: UUID,
    *,
    window: int,
    rows: int = MAX_ROWS,
    account_window: int = ACCOUNT_WINDOW,
    any_priority: bool = False,
    marks: Sequence[LaneMark] = (),
    passed_over: Collection[int] = (),
    open_batches: Mapping[int, Lease] | None = None,
) -> Claim | bool:
    """Claim all that waits in the lane whose turn it is, up to `rows` runs and `MAX_BYTES` of input.

    Lanes go by priority, then by account and by lane served longest ago. What is at work is counted after
    the account was locked, so nobody ever has more than admitted.

    Args:
        connection: outside a transaction.
        lease: of the batch to be, new.
        worker_id: the worker process that executes it.
        window: how many runs the installation may have at work.
        rows: how many to claim at most.
        account_window: how many runs of an account may be at work.
        any_priority: let the account that was served longest ago go first, whatever its priority.
        marks: of lanes with much behind them: what is older need not be looked at.
        passed_over: lanes not to be served.
        open_batches: by lane, the batch of this worker that runs of it may join.

    Returns:
        The claim; else whether anything waits that may not be served now.
    """
    ordered, joinable = sorted(marks, key=lambda mark: mark.lane_id), open_batches or {}
    cursor = await connection.execute(
        "select * from claim_runs(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s::bigint[], %s::timestamptz[],"
        " %s::timestamptz[], %s::bigint[], %s::bigint[], %s::uuid[], %s::uuid[])",
        (
            lease.batch_id, lease.executor, worker_id, rows, MAX_BYTES, window, account_window, INTERACTIVE,
            any_priority, [mark.lane_id for mark in ordered], [mark.begun_from for mark in ordered],
            [mark.new_from for mark in ordered], list(passed_over), list(joinable),
            [one.batch_id for one in joinable.values()], [one.executor for one in joinable.values()],
        ),
    )  # fmt: skip
    found = await cursor.fetchall()
    if not found or found[0]["run_id"] is None:
        return bool(found)
    first, triggers = found[0], {row["trigger"] for row in found}
    used = Lease(first["batch_id"], first["executor"])
    return Claim(
        lease=used,
        joined=used != lease,
        account_id=first["account_id"],
        automation_id=first["automation_id"],
        version=first["version"],
        lane_id=first["lane_id"],
        priority=first["priority"],
        trigger=triggers.pop() if len(triggers) == 1 else "mixed",
        runs=[_claimed_run(row) for row in found],
        was_aside=first["was_aside"],
        asked_at=first["asked_at"],
        last_begun=max((row["available_at"] for row in found if row["begun"]), default=None),
        last_new=max((row["available_at"] for row in found if not row["begun"]), default=None),
    )


def _claimed_run(row: Mapping[str, Any]) -> ClaimedRun:
    return ClaimedRun(
        row["run_id"], row["started_at"], row["input"], row["request"], row["bytes"],
        row["begun"] or row["restarted"], row["progress"], queued_at=row["queued_at"],
        parent_run_id=row["parent_run_id"],
    )  # fmt: skip


# ---- waiting

_WAKE: LiteralString = (
    "update run_work set status = 'queued', available_at = clock_timestamp(), batch_id = null, wake_at = null"
    " where status = 'waiting'"
)


_DELETE_IF_DONE = """
with left_over as (
  select min(wake_at) as wake_at, count(*) as n from run_work where batch_id = %(id)s
), gone as (
  delete from batches where id = %(id)s and (select n from left_over) = 0
)
select extract(epoch from wake_at - clock_timestamp())::float as seconds from left_over
"""


async def queue_due(connection: Connection, batch_id: UUID) -> tuple[int, float | None]:
    """Queue the runs of a batch whose wait is over; the batch is gone when it has no run left.

    Returns:
        How many were queued, and the seconds until the next is due; None if none waits.
    """
    cursor = await connection.execute(
        _WAKE + " and batch_id = %s and wake_at <= clock_timestamp()", (batch_id,)
    )
    queued = cursor.rowcount
    cursor = await connection.execute(_DELETE_IF_DONE, {"id": batch_id})
    row = await cursor.fetchone()
    return queued, row["seconds"] if row else None


async def queue_overdue(connection: Connection, limit: int = 1000) -> int:
    """Queue runs whose wait was over half a minute ago: their batch has failed to. Returns how many.

    A batch that has no run any more is gone with them.
    """
    cursor = await connection.execute(_QUEUE_OVERDUE, {"overdue": _OVERDUE_SECONDS, "limit": limit})
    row = await cursor.fetchone()
    return row["runs"] if row else 0


_QUEUE_OVERDUE = """
with overdue as materialized (
  select run_id, batch_id from run_work
  where status = 'waiting' and wake_at < clock_timestamp() - make_interval(secs => %(overdue)s)
  order by wake_at limit %(limit)s for update skip locked
), queued as (
  update run_work w set status = 'queued', available_at = clock_timestamp(), batch_id = null, wake_at = null
  from overdue o where w.run_id = o.run_id
), gone as (
  delete from batches b where b.id in (select batch_id from overdue) and not exists (
    select from run_work w where w.batch_id = b.id and w.run_id not in (select run_id from overdue))
)
select count(*)::int as runs from overdue
"""
