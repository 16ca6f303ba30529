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
        root_run_id: of a run that is a step of another, the first above it.
        held: queued, but no claim looks at it: as many runs of its workflow as may be are under way.
    """

    __tablename__ = "run_work"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('queued', 'running', 'waiting')", name="status"),
        Index("ix_run_work_account_id_run_id", "account_id", "run_id"),
        Index("ix_run_work_batch", "batch_id", postgresql_where="batch_id is not null"),
        Index(
            "ix_run_work_queued", "lane_id", "begun", "available_at", "run_id",
            postgresql_where="status = 'queued' and not held",
        ),
        Index("ix_run_work_held", "lane_id", "available_at", "run_id", postgresql_where="held"),
        Index("ix_run_work_wake", "wake_at", postgresql_where="status = 'waiting'"),
        Index("ix_run_work_parent_run_id", "parent_run_id", postgresql_where="parent_run_id is not null"),
        Index("ix_run_work_upload_id", "upload_id", postgresql_where="upload_id is not null"),
        Index("ix_run_work_root_run_id", "root_run_id", postgresql_where="root_run_id is not null"),
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
    root_run_id: UUID | None
    held: bool = Field(sa_column_kwargs={"server_default": text("false")})


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


async def queue_due(connection: Connection, batch_id: UUID) -> tuple[int, float | None]:
    """Queue the runs of a batch whose wait is over; the batch is gone when it has no run left.

    Give it no open transaction.

    Returns:
        How many were queued, and the seconds until the next is due; None if none waits.
    """
    cursor = await connection.execute(
        _WAKE + " and batch_id = %s and wake_at <= clock_timestamp()", (batch_id,)
    )
    queued = cursor.rowcount
    async with connection.transaction():
        # A claim may have runs join the batch until this is locked: only a later statement counts them.
        await connection.execute("select from batches where id = %s for update", (batch_id,))
        cursor = await connection.execute(
            "select extract(epoch from min(wake_at) - clock_timestamp())::float as seconds, count(*) as runs"
            " from run_work where batch_id = %s",
            (batch_id,),
        )
        row = await cursor.fetchone()
        if row is not None and row["runs"] == 0:
            await connection.execute("delete from batches where id = %s", (batch_id,))
    return queued, row["seconds"] if row else None


async def queue_overdue(connection: Connection, limit: int = 1000) -> int:
    """Queue runs whose wait was over half a minute ago: their batch has failed to. Returns how many."""
    cursor = await connection.execute(
        "with overdue as materialized (select run_id from run_work"
        "  where status = 'waiting' and wake_at < clock_timestamp() - make_interval(secs => %s)"
        "  order by wake_at limit %s for update skip locked) "
        + _WAKE + " and run_id in (select run_id from overdue)",
        (_OVERDUE_SECONDS, limit),
    )  # fmt: skip
    return cursor.rowcount


# ---- sweeping

_WITHOUT_BATCH: LiteralString = (
    "status = 'running' and not exists (select from batches b where b.id = batch_id)"
)


async def queue_strays(connection: Connection) -> int:
    """Queue runs that are `running` in a batch that is not there; returns how many.

    Nobody takes them forward.
    """
    cursor = await connection.execute(
        "with stray as materialized (select run_id from run_work where "
        + _WITHOUT_BATCH
        + " order by run_id limit 1000 for update skip locked)"
        " update run_work w set status = 'queued', available_at = clock_timestamp(), batch_id = null"
        " from stray where w.run_id = stray.run_id and w." + _WITHOUT_BATCH
    )
    return cursor.rowcount


async def count_strays(connection: Connection) -> int:
    """Count the runs that are `running` in a batch that is not there."""
    cursor = await connection.execute("select count(*)::int as n from run_work where " + _WITHOUT_BATCH)
    row = await cursor.fetchone()
    return row["n"] if row else 0


_FIND_HELD: LiteralString = """
with recursive lane (id) as (
  (select lane_id from run_work where held and lane_id > %(after)s order by lane_id limit 1)
  union all
  (select (select w.lane_id from run_work w where w.held and w.lane_id > lane.id order by w.lane_id limit 1)
   from lane where lane.id is not null)
), found as materialized (select id from lane where id is not null limit %(lanes)s)
select f.id as lane_id, l.automation_id,
  coalesce(a.concurrency_limit - count_under_way(a.id), 1000) as room
from found f join lanes l on l.id = f.id join automations a on a.id = l.automation_id
"""
_LANES_AT_ONCE, _MOST_PROMOTED = 256, 1000


async def promote_held(connection: Connection, after: int) -> tuple[int, int]:
    """Queue held runs of workflows that have room, whatever has made it: ends promote one each by themselves.

    Args:
        connection: outside a transaction.
        after: the lane that the sweep before has come to; 0 to begin with the first.

    Returns:
        How many were queued, and what to give as `after` next.
    """
    cursor = await connection.execute(_FIND_HELD, {"after": after, "lanes": _LANES_AT_ONCE})
    rows = await cursor.fetchall()
    room = {row["automation_id"]: min(row["room"], _MOST_PROMOTED) for row in rows if row["room"] > 0}
    promoted = 0
    if room:
        places = [automation_id for automation_id, free in room.items() for _ in range(free)]
        cursor = await connection.execute("select promote_held(%s) as runs", (places,))
        row = await cursor.fetchone()
        promoted = row["runs"] if row else 0
    return promoted, rows[-1]["lane_id"] if len(rows) == _LANES_AT_ONCE else 0
