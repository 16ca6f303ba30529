"""Runs of monitors: accepted with their targets and credits, shown, cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import orjson
from sqlalchemy import JSON, CheckConstraint, Column, DateTime, ForeignKey, Index, Integer, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from database import Connection
from models.credits import credits
from models.credits.credits import Booking
from models.errors import Conflict, DomainError, InsufficientCredits, NotFound
from models.identifiers import new_id
from models.lists.lists import TargetType
from models.monitors import monitors
from models.monitors.completion import RunEffects, hold_reference, tell_failed
from models.monitors.monitors import LockedMonitor
from models.monitors.run_views import MonitorRunView, RunStatus, RunTrigger, view_of
from models.schedules.scheduling import DUE_BY

CHUNK = 200
"""The number of targets of a run that are processed together."""

# The time after which a manual run no longer waits. A scheduled one waits until the next is due.
_BY_HAND = timedelta(days=1)


class MonitorRun(SQLModel, table=True):
    """A run of a monitor.

    Attributes:
        created_at: when it was accepted.
        started_at: when a worker claimed it.
        begun_at: when Temporal accepted its workflow.
        probed_at: the last attempt to start its workflow.
        targets_partial: the number of targets whose result lacks some source of a tracked field.
        first_heard_records: the number of targets with first findings.
        sources_silent: `[{source, why, since, targets}]`, written at the end.
        sources_heard: the sources that have answered for some target so far.
        skipped_runs: the number of times that its monitor was due while it was under way.
        ends_by: when it ends, with the results until then.
        resumes_at: the time until which all remaining targets wait for sources over their limits.
    """

    __tablename__ = "monitor_runs"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint(
            "status in ('queued', 'running', 'completed', 'failed', 'cancelled')",
            name="ck_monitor_runs_status",
        ),
        CheckConstraint("trigger in ('schedule', 'manual')", name="ck_monitor_runs_trigger"),
        Index("ix_monitor_runs_account_id_id", "account_id", "id"),
        Index("ix_monitor_runs_monitor_id_id", "monitor_id", "id"),
        Index("ix_monitor_runs_unfinished", "account_id", "id", postgresql_where="completed_at is null"),
        Index(
            "ix_monitor_runs_notable", "account_id", "id",
            postgresql_where="completed_at is not null and (status = 'failed' or changes_detected > 0)",
        ),
        {"postgresql_with": {"fillfactor": 50}},
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    account_id: UUID
    monitor_id: UUID = Field(sa_column=Column(ForeignKey("monitors.id", ondelete="CASCADE"), nullable=False))
    monitor_type: str = Field(sa_type=Text)
    status: str = Field(sa_type=Text)
    trigger: str = Field(sa_type=Text)
    total_records: int
    processed_records: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    failed_records: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    changes_detected: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    heard_records: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    error: Any = Field(sa_column=Column(JSON))
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    completed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    begun_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    probed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    targets_partial: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    first_heard_records: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    skipped_runs: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    sources_silent: Any = Field(sa_column=Column(JSONB, nullable=False, server_default="[]"))
    sources_heard: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False, server_default="{}"))
    ends_by: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    resumes_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class MonitorRunChunk(SQLModel, table=True):
    """Targets of a run that are still to be looked up, fixed when the run was accepted."""

    __tablename__ = "monitor_run_chunks"  # pyright: ignore[reportAssignmentType]

    run_id: UUID = Field(
        sa_column=Column(ForeignKey("monitor_runs.id", ondelete="CASCADE"), primary_key=True)
    )
    number: int = Field(primary_key=True)
    targets: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))


class AcceptedRun(NamedTuple):
    """A run that was accepted, and the number of its targets."""

    run_id: UUID
    targets: int


async def start(
    connection: Connection,
    account_id: UUID,
    monitor_id: UUID,
    run_id: UUID | None = None,
    *,
    is_charged: bool = True,
) -> AcceptedRun:
    """Accept a manual run; call it in a transaction. Notify `monitors.CHANGED_CHANNEL` after the commit.

    The run has the current targets, and a credit for each is held.

    Args:
        connection: inside a transaction.
        account_id: the owner.
        monitor_id: the monitor.
        run_id: the id for it, made at the first attempt: if this run exists, it is returned.
        is_charged: whether the run costs credits.

    Raises:
        NotFound: the monitor is unknown, or another account's.
        Conflict: a run is under way (`run_in_progress`, with its `run_id`), the monitor has no targets, or
            its list was deleted.
        InsufficientCredits: the balance does not cover it.
    """
    locked = await monitors.lock(connection, account_id, monitor_id)
    if run_id is not None:
        cursor = await connection.execute(
            "select total_records from monitor_runs where monitor_id = %s and id = %s", (monitor_id, run_id)
        )
        if found := await cursor.fetchone():
            return AcceptedRun(run_id, found["total_records"])
    return await _accept(connection, locked, "manual", run_id, is_charged=is_charged)


async def start_due(
    connection: Connection, monitor_id: UUID, come: datetime | None = None, *, is_charged: bool = True
) -> RunEffects | None:
    """Accept the run of a monitor that is due; call it in a transaction, and notify as for `start`.

    Several missed times give one run. While a run is under way, the new one is skipped and counted, unless
    the running one must end by now: then the monitor stays due, for `start_next`. A run that cannot begin is
    stored as failed.

    Args:
        connection: inside a transaction.
        monitor_id: the monitor; nothing happens if it is not due.
        come: the current time of its Schedule, whose clock may be ahead of the database's.
        is_charged: whether the run costs credits.

    Returns:
        The effects of a run that failed at once; None if there is none.
    """
    cursor = await connection.execute(
        f"select * from monitors where id = %s and next_run_at <= {DUE_BY} for no key update",
        (monitor_id, come),
    )
    row = await cursor.fetchone()
    if row is None or await _is_ending(connection, row["run_id"], come):
        return None
    locked = LockedMonitor(row)
    following = locked.next_after(max(datetime.now(UTC), row["next_run_at"]))
    await connection.execute("update monitors set next_run_at = %s where id = %s", (following, monitor_id))
    if row["run_id"] is not None:
        await connection.execute(
            "update monitor_runs set skipped_runs = skipped_runs + 1 where id = %s", (row["run_id"],)
        )
        return None
    try:
        # A savepoint: if the run cannot begin, only its own changes are undone.
        async with connection.transaction():
            await _accept(connection, locked, "schedule", ends_by=following, is_charged=is_charged)
    except (Conflict, InsufficientCredits) as error:
        return await _fail(connection, row, error)
    return None


async def start_next(connection: Connection, run_id: UUID, *, is_charged: bool = True) -> RunEffects | None:
    """Accept the run that became due while this one came to its end, if any; as `start_due`."""
    cursor = await connection.execute("select monitor_id from monitor_runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    return None if row is None else await start_due(connection, row["monitor_id"], is_charged=is_charged)


async def _is_ending(connection: Connection, run_id: UUID | None, come: datetime | None) -> bool:
    """Return whether the run under way must end by now: the run that is due begins after it."""
    cursor = await connection.execute(
        f"select from monitor_runs where id = %s and ends_by <= {DUE_BY}",
        (run_id, come),
    )
    return await cursor.fetchone() is not None


async def _accept(
    connection: Connection,
    locked: LockedMonitor,
    trigger: RunTrigger,
    run_id: UUID | None = None,
    ends_by: datetime | None = None,
    *,
    is_charged: bool,
) -> AcceptedRun:
    row = locked.row
    if row["run_id"] is not None:
        message = "A run of the monitor is under way; wait for its end, or cancel it."
        raise Conflict("run_in_progress", message, run_id=str(row["run_id"]))
    run_id = await _later_id(connection, row["id"], run_id or new_id())
    await _insert(connection, run_id, row, "queued", trigger)
    total = await _insert_chunks(connection, run_id, row)
    if not total:
        await _refuse_without_targets(connection, row)
    await connection.execute(
        "update monitor_runs set total_records = %s, ends_by = coalesce(%s, created_at + %s) where id = %s",
        (total, ends_by, _BY_HAND, run_id),
    )
    await connection.execute(
        "update monitors set run_id = %s, runs = runs + 1 where id = %s", (run_id, row["id"])
    )
    if is_charged:
        booking = Booking(row["account_id"], total, hold_reference(run_id), f"Monitor {row['name']}")
        await credits.hold(connection, booking)
    return AcceptedRun(run_id, total)


async def _later_id(connection: Connection, monitor_id: UUID, wanted: UUID) -> UUID:
    """Return the id, or the successor of the last run's id if that is later: ids order the runs.

    Clocks of machines differ, and an id may have been made some time ago.
    """
    cursor = await connection.execute(
        "select id from monitor_runs where monitor_id = %s order by id desc limit 1", (monitor_id,)
    )
    last = await cursor.fetchone()
    return wanted if last is None else max(wanted, UUID(int=last["id"].int + 1))


async def _insert(
    connection: Connection,
    run_id: UUID,
    monitor: Mapping[str, Any],
    status: RunStatus,
    trigger: RunTrigger,
    error: Mapping[str, Any] | None = None,
) -> None:
    await connection.execute(
        "insert into monitor_runs (id, account_id, monitor_id, monitor_type, status, trigger, total_records,"
        " error, created_at, completed_at)"
        " values (%s, %s, %s, %s, %s, %s, 0, %s, clock_timestamp(),"
        " case when %s then clock_timestamp() end)",
        (
            run_id, monitor["account_id"], monitor["id"], monitor["monitor_type"], status, trigger,
            None if error is None else orjson.dumps(error).decode(), error is not None,
        ),
    )  # fmt: skip


_CHUNKS: LiteralString = """
with chunks as (
  insert into monitor_run_chunks (run_id, number, targets)
  select %(run_id)s, (place - 1) / %(size)s as number, array_agg(target order by place) from (
    select t.target, row_number() over (
      order by case when b.target is null then '-infinity' else b.unheard_since end, t.id) as place
    from {} t left join monitor_baselines b on b.monitor_id = %(monitor_id)s and b.target = t.target
    where t.{} = %(source)s
  ) as placed group by number returning cardinality(targets) as targets
)
select coalesce(sum(targets), 0)::int as total from chunks
"""
_OWN_CHUNKS: LiteralString = _CHUNKS.format("monitor_targets", "monitor_id")
_LISTED_CHUNKS: LiteralString = _CHUNKS.format("list_targets", "list_id")


async def _insert_chunks(connection: Connection, run_id: UUID, monitor: Mapping[str, Any]) -> int:
    """Store the current targets, so that later changes affect only the next run.

    First come targets without a baseline, then those for which a limited source was not heard for longest.
    """
    own = monitor["list_id"] is None
    cursor = await connection.execute(
        _OWN_CHUNKS if own else _LISTED_CHUNKS,
        {
            "run_id": run_id,
            "size": CHUNK,
            "monitor_id": monitor["id"],
            "source": monitor["id"] if own else monitor["list_id"],
        },
    )
    row = await cursor.fetchone()
    return row["total"] if row else 0


async def _refuse_without_targets(connection: Connection, monitor: Mapping[str, Any]) -> None:
    if monitor["list_id"] is not None:
        cursor = await connection.execute("select from lists where id = %s", (monitor["list_id"],))
        if await cursor.fetchone() is None:
            message = "The list that it watched was deleted: choose another as data_source_ref first."
            raise Conflict("list_deleted", message)
    raise Conflict("no_targets", "The monitor has no targets: add some first.")


async def _fail(connection: Connection, monitor: Mapping[str, Any], error: DomainError) -> RunEffects:
    run_id = await _later_id(connection, monitor["id"], new_id())
    reason = {"code": error.code, "message": error.message}
    await _insert(connection, run_id, monitor, "failed", "schedule", reason)
    await connection.execute(
        "update monitors set runs = runs + 1, last_run_at = now() where id = %s", (monitor["id"],)
    )
    return await tell_failed(connection, monitor["account_id"], run_id)


_SHOWN: LiteralString = (
    "select r.*, m.name as monitor_name from monitor_runs r join monitors m on m.id = r.monitor_id"
    " where r.account_id = %(account_id)s and m.deleted_at is null"
)


async def get(connection: Connection, account_id: UUID, monitor_id: UUID, run_id: UUID) -> MonitorRunView:
    """Return one run of a monitor.

    Raises:
        NotFound: the run is unknown, of another monitor, or another account's.
    """
    cursor = await connection.execute(
        _SHOWN + " and r.monitor_id = %(monitor_id)s and r.id = %(run_id)s",
        {"account_id": account_id, "monitor_id": monitor_id, "run_id": run_id},
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("run")
    return view_of(row)


async def list_some(
    connection: Connection,
    account_id: UUID,
    *,
    monitor_id: UUID | None = None,
    type: TargetType | None = None,
    limit: int,
    offset: int,
) -> tuple[list[MonitorRunView], int]:
    """Return runs of the account, newest first, and their total number.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner.
        monitor_id: only of this monitor.
        type: only of monitors of this type.
        limit: the highest number of runs.
        offset: the number of runs to skip.
    """
    wanted = {"account_id": account_id, "monitor_id": monitor_id, "type": type}
    where: LiteralString = ""
    if monitor_id is not None:
        where += " and {0}.{1} = %(monitor_id)s"
    if type is not None:
        where += " and m.monitor_type = %(type)s"
    cursor = await connection.execute(
        "select coalesce(sum(m.runs), 0)::int as total from monitors m"
        " where m.account_id = %(account_id)s and m.deleted_at is null" + where.format("m", "id"),
        wanted,
    )
    counted = await cursor.fetchone()
    cursor = await connection.execute(
        _SHOWN + where.format("r", "monitor_id") + " order by r.id desc limit %(limit)s offset %(offset)s",
        {**wanted, "limit": limit, "offset": offset},
    )
    return [view_of(row) for row in await cursor.fetchall()], counted["total"] if counted else 0
