"""Run work: a narrow row for each unfinished run, deleted at its end.

A run is `queued`, `running` while its carrier executes it, or `waiting`. Every event that ends a wait changes
the row in the same way: the run is queued again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
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
from models.gates import NONE
from models.priorities import ALONE, BULK
from models.runs.claim_order import WINDOW, previous_id
from models.runs.claim_requests import ClaimRequest, Queue
from tracing import NO_ORIGIN, Origin

MAX_BYTES = 4 * 1024 * 1024
"""The highest total size of the inputs of the runs in a claim."""
# How often a claim tries again at once if it has found only runs to hold.
_MOST_LOOKS = 32


class RunWork(SQLModel, table=True):
    """The work of a run that has not ended.

    Attributes:
        begun: whether it was claimed before.
        available_at: the time from which it can be claimed.
        bytes: the size of its trigger and request, as JSON.
        version: the version of its workflow.
        priority: see `models.priorities`.
        gate: its workflow, if that limits the runs under way; else `models.gates.NONE`.
        claim_id: set by the last claim, while it runs: the fence of all writes of the run.
        carrier: the shift that executes it, or `models.runs.own_runs.WORKFLOW`.
        own: whether it needs a workflow of its own, and waits for a place.
        handed_at: when it was handed to its workflow, until that takes it up. A run that was queued because
        of
            that is executed by a shift.
        progress_no: the number of times that `progress` was written.
        wake_at: when it continues by itself, if it only waits.
        woken: whether it must continue earlier: its carrier then queues it instead of letting it wait.
        progress: see `language.progress`.
        lost: how often in a row it was lost with its worker, without a write in between.
        setbacks: failures of our code with it: since when, how often, and by which builds.
        parent_run_id: the run whose step this run is.
        upload_id: the upload that contains it as a row.
        root_run_id: the first run above it, if it is a step of another.
        held: queued but invisible to claims, because its workflow is at its limit of runs under way.
    """

    __tablename__ = "run_work"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('queued', 'running', 'waiting')", name="status"),
        Index("ix_run_work_account_id_run_id", "account_id", "run_id"),
        Index("ix_run_work_carrier", "carrier", postgresql_where="carrier is not null"),
        Index(
            "ix_run_work_gate", "gate",
            postgresql_where="begun and gate <> '00000000-0000-0000-0000-000000000000'",
        ),
        Index("ix_run_work_handed", "handed_at", postgresql_where="handed_at is not null"),
        Index("ix_run_work_woken", "run_id", postgresql_where="woken"),
        Index(
            "ix_run_work_queued", "own", "priority", "account_id", "gate", text("begun desc"), "available_at",
            "run_id", postgresql_where="status = 'queued' and not held",
        ),
        Index("ix_run_work_available_at", "available_at", postgresql_where="status = 'queued' and not held"),
        Index("ix_run_work_held", "gate", "priority", "available_at", "run_id", postgresql_where="held"),
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
    version: int
    priority: int = Field(sa_type=SmallInteger)
    gate: UUID
    status: str = Field(sa_type=Text)
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    begun: bool
    available_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    bytes: int
    claim_id: UUID | None
    carrier: UUID | None
    own: bool = Field(sa_column_kwargs={"server_default": text("false")})
    handed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    progress_no: int = Field(sa_column_kwargs={"server_default": text("0")})
    wake_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    woken: bool = Field(sa_column_kwargs={"server_default": text("false")})
    progress: Any = Field(sa_column=Column(JSON))
    lost: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default="0"))
    setbacks: Any = Field(sa_column=Column(JSON))
    parent_run_id: UUID | None
    upload_id: UUID | None
    root_run_id: UUID | None
    held: bool = Field(sa_column_kwargs={"server_default": text("false")})


class VersionRef(NamedTuple):
    """The account, workflow and version of a run."""

    account_id: UUID
    automation_id: UUID
    version: int


@dataclass
class ClaimedRun:
    """A claimed run with the data of its rows, ready to be executed.

    Attributes:
        claim_id: the claim that proves that a write comes from its carrier.
        size: the size of trigger and request together, in bytes of JSON; large ones stay in the row.
        recorded: whether there may be records of its steps.
        progress: the progress of the steps that have begun, in the form of `language.progress`.
        unloaded: whether trigger and request are not in memory, and must be read from the row.
        queued_at: when it was accepted.
        parent_run_id: the run whose step this run is.
        priority: the priority with which it was claimed.
        had_workflow: whether a workflow of its own waits for it.
        kind: the type of its trigger.
        origin: the request, or the run, that started it.
    """

    run_id: UUID
    claim_id: UUID
    started_at: datetime
    trigger: Any
    request: Any
    size: int
    recorded: bool
    progress: Mapping[str, Any] | None
    unloaded: bool = False
    queued_at: datetime | None = None
    parent_run_id: UUID | None = None
    priority: int = BULK
    had_workflow: bool = False
    kind: str = "manual"
    origin: Origin = NO_ORIGIN


@dataclass(frozen=True)
class QueueShare:
    """The runs that a claim took from one queue, and the times of the last ones.

    Attributes:
        last_begun: the `available_at` of the last run that had begun before; None if there was none.
        last_new: the same for runs that had not begun.
    """

    runs: int
    last_begun: datetime | None
    last_new: datetime | None


@dataclass(frozen=True)
class Claim:
    """Runs that were claimed together.

    Attributes:
        groups: the runs, by account, workflow and version.
        queues: the queues that they were taken from.
        begun: the number of runs that begin now, by workflow.
        more: whether more runs may wait.
        asked_at: the time of the claim, by the database's clock.
    """

    groups: dict[VersionRef, list[ClaimedRun]]
    queues: dict[Queue, QueueShare]
    begun: dict[UUID, int]
    more: bool
    asked_at: datetime

    @property
    def size(self) -> int:
        """The number of runs."""
        return sum(map(len, self.groups.values()))


LOCKED_CLAIMS: LiteralString = """
(select w.run_id from unnest(%s::uuid[], %s::uuid[]) as n (run_id, claim_id)
  join run_work w on w.run_id = n.run_id and w.claim_id = n.claim_id order by w.run_id for update of w) locked
"""
"""Runs by their claims, locked in order, so that two statements that change the same runs cannot deadlock."""

# A session counts the rows that it reads of an index over several statements, so the count is taken before
# and after. The join returns a row even if the claim returns none.
_ROWS_READ: LiteralString = "pg_stat_get_xact_tuples_returned('ix_run_work_queued'::regclass)"
_CLAIM: LiteralString = f"""
select c.*, {_ROWS_READ} - before.rows as index_rows
from (select {_ROWS_READ} as rows offset 0) before
left join lateral claim_runs_4(
  %s, %s, %s, %s, %s, %s, %s, %s::int[], %s::uuid[], %s::uuid[], %s::int[],
  %s::int[], %s::uuid[], %s::uuid[], %s::int[], %s::uuid[], %s::uuid[], %s::timestamptz[], %s::timestamptz[]
) c on true
"""


async def claim(connection: Connection, shift_id: UUID, request: ClaimRequest) -> Claim | bool:
    """Claim runs from many queues, a share for each account, up to `MAX_BYTES` of input.

    Args:
        connection: outside a transaction.
        shift_id: the shift that will carry them.
        request: the runs that it may have. The turn in it advances, even if nothing can be served there now.

    Returns:
        The claim; if nothing was claimed, whether runs wait that cannot be served now.
    """
    turn, marks, priorities, waits = request.turn, request.marks, request.priorities, False
    for _ in range(_MOST_LOOKS):
        values = (
            shift_id, request.own, request.most_rows, MAX_BYTES, request.room, WINDOW, request.account_window,
            priorities,
            [turn.after.get(priority, NONE) for priority in priorities],
            list(request.at_work), list(request.at_work.values()),
            [priority for priority, _ in turn.gates], [account_id for _, account_id in turn.gates],
            list(turn.gates.values()),
            [mark.priority for mark in marks], [mark.account_id for mark in marks],
            [previous_id(mark.account_id) for mark in marks], [mark.begun_from for mark in marks],
            [mark.new_from for mark in marks],
        )  # fmt: skip
        rows = await (await connection.execute(_CLAIM, values)).fetchall()
        request.on_read(rows[0]["index_rows"], len(rows))
        if rows[0]["last_accounts"] is None:
            return waits
        turn.go_on(dict(zip(priorities, rows[0]["last_accounts"], strict=True)), _last_gates(rows))
        if rows[0]["run_id"] is not None:
            return _claim_of(rows)
        waits = True
        if not rows[0]["more"]:
            break
    return waits


def _last_gates(found: Sequence[Mapping[str, Any]]) -> dict[tuple[int, UUID], UUID]:
    """Return the gate after which the next claim continues, by priority and account with several gates."""
    first = found[0]
    passed = zip(first["passed_priorities"], first["passed_accounts"], first["passed_gates"], strict=True)
    last = {(priority, account_id): gate for priority, account_id, gate in passed}
    gates: dict[tuple[int, UUID], set[UUID]] = {}
    for row in found if first["run_id"] is not None else ():
        gates.setdefault((row["priority"], row["account_id"]), set()).add(row["gate"])
    return last | {of: max(some) for of, some in gates.items() if some != {NONE}}


def _claim_of(found: Sequence[Mapping[str, Any]]) -> Claim:
    groups: dict[VersionRef, list[ClaimedRun]] = {}
    queues: dict[Queue, list[Mapping[str, Any]]] = {}
    begun: dict[UUID, int] = {}
    for row in found:
        of = VersionRef(row["account_id"], row["automation_id"], row["version"])
        groups.setdefault(of, []).append(_claimed_run(row))
        queues.setdefault(Queue(row["priority"], row["account_id"], row["gate"]), []).append(row)
        if not row["begun"]:
            begun[row["automation_id"]] = begun.get(row["automation_id"], 0) + 1
    return Claim(
        groups,
        {queue: _share_of(rows) for queue, rows in queues.items()},
        begun,
        found[0]["more"],
        found[0]["asked_at"],
    )


def _share_of(rows: Sequence[Mapping[str, Any]]) -> QueueShare:
    return QueueShare(
        len(rows),
        max((row["available_at"] for row in rows if row["begun"]), default=None),
        max((row["available_at"] for row in rows if not row["begun"]), default=None),
    )


def _claimed_run(row: Mapping[str, Any]) -> ClaimedRun:
    return ClaimedRun(
        row["run_id"], row["claim_id"], row["started_at"], row["input"], row["request"], row["bytes"],
        row["begun"] or row["restarted"], row["progress"], queued_at=row["queued_at"],
        parent_run_id=row["parent_run_id"], priority=row["priority"], had_workflow=row["had_workflow"],
        kind=row["trigger"], origin=Origin(row["traceparent"], row["request_id"]),
    )  # fmt: skip


# ---- waiting

# The statement's time is used: a time that changes within a statement is no bound of an index, so that all
# waiting rows would be read.
_WAKE_DUE: LiteralString = """
update run_work w set status = 'queued', available_at = clock_timestamp(), wake_at = null
from (select run_id from run_work where status = 'waiting' and wake_at <= statement_timestamp()
        and (carrier is null or wake_at <= statement_timestamp() - interval '1 second')
      order by wake_at limit %s for update skip locked) as due
where w.run_id = due.run_id returning w.carrier is not null as had_workflow
"""


async def wake_due(connection: Connection, limit: int = 1000) -> tuple[int, int]:
    """Queue runs whose wait is over, if their workflow, where they have one, did not.

    Returns:
        The number of queued runs, and how many of them have a workflow.
    """
    rows = await (await connection.execute(_WAKE_DUE, (limit,))).fetchall()
    return len(rows), sum(row["had_workflow"] for row in rows)


# ---- sweeping

# A run that was just claimed has its shift's row: the claim locks it. The carrier of workflows is the
# smallest id: their runs, which may be many, are not read.
_STRAY: LiteralString = (
    "status = 'running' and carrier > '00000000-0000-0000-0000-000000000000'"
    " and not exists (select from shifts s where s.id = carrier)"
)


async def queue_strays(connection: Connection) -> int:
    """Queue runs that are `running` in a shift that does not exist; return their number."""
    cursor = await connection.execute(
        "with stray as materialized (select run_id from run_work where "
        + _STRAY
        + " order by run_id limit 1000 for update skip locked)"
        " update run_work w set status = 'queued', available_at = clock_timestamp(), carrier = null,"
        " claim_id = null from stray where w.run_id = stray.run_id and w." + _STRAY
    )
    return cursor.rowcount


async def count_strays(connection: Connection) -> int:
    """Count the runs that are `running` in a shift that does not exist."""
    cursor = await connection.execute("select count(*)::int as n from run_work where " + _STRAY)
    row = await cursor.fetchone()
    return row["n"] if row else 0


async def waits_alone(connection: Connection) -> bool:
    """Return whether a run waits that was lost twice with its worker, and must run alone."""
    cursor = await connection.execute(
        "select exists (select from run_work where status = 'queued' and not held and priority > %s"
        " and available_at <= clock_timestamp()) as waits",
        (ALONE,),
    )
    row = await cursor.fetchone()
    return bool(row and row["waits"])
