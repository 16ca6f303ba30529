"""Leases: who may take the runs of a batch forward, and the one statement by which that is written down.

A batch has one executor at a time. It proves that it lives by beats; when it has been silent for
`SILENT_SECONDS`, another one may take over. The executor's id is the fence: every write locks its batch in
share mode and finds its own id there, a take-over locks it exclusively and then puts in another. So a write
that has begun is over before the take-over goes on, and one that begins later writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

import orjson
from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, Index, Text, text
from sqlmodel import Field, SQLModel

from database import Connection
from language.records import StepError, StepRecord
from models.identifiers import new_id
from models.lanes import BULK

SILENT_SECONDS = 10
"""A lease may be taken over after so long without a beat."""
MAX_DEPTH = 5
"""How many runs may be above one: those that it is a step of, and those whose failure it follows."""


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


@dataclass(frozen=True)
class Wait:
    """The run waits, or something of it is under way for so long that it is to be seen.

    Attributes:
        wake_at: when it goes on, if it only waits.
        progress: as `language.progress` has it, as JSON.
        leaves: its executor lets go of it.
    """

    wake_at: datetime | None
    progress: str
    leaves: bool = False


@dataclass(frozen=True)
class End:
    """The run has ended. Its output is that of the step `output_of`: it is kept once.

    Attributes:
        handler: of a run that has failed, the workflow that runs for that.
        has_children: runs that it has begun as steps may be under way: they are cancelled.
    """

    status: Literal["completed", "failed", "cancelled"]
    error: StepError | None = None
    output_of: str | None = None
    handler: UUID | None = None
    has_children: bool = False


@dataclass(frozen=True)
class Change:
    """What a run's executor has to write of it: steps that are done, and whether it waits or has ended.

    Attributes:
        parent_run_id: the run whose step it is: its end wakes that.
    """

    lease: Lease
    run_id: UUID
    records: Sequence[StepRecord] = field(default_factory=list[StepRecord])
    then: Wait | End | None = None
    parent_run_id: UUID | None = None

    @cached_property
    def written(self) -> bytes:
        """Which run it is, and what becomes of it, as JSON."""
        return orjson.dumps(_written_change(self))

    @cached_property
    def written_records(self) -> bytes:
        """The records, as JSON: each with a comma after it, so that those of several changes follow on."""
        return _written_records(self.records)

    @property
    def size(self) -> int:
        """The bytes of all of it."""
        return len(self.written) + len(self.written_records)


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


_RECORD = """run_id uuid, step_id text, position smallint, status text, input text, output text, error json,
  attempts smallint, credits_used bigint, started_at timestamptz, completed_at timestamptz, item smallint,
  gathered boolean"""
# `mine` is read first, as what follows joins it, and waits there for a take-over that is under way; what that
# has changed it sees, since it locks. Rows are locked in the order of their ids, parents that are to be woken
# before all: who cancels a parent locks its children after it. Steps are inserted in their order.
_WRITE = f"""
with asked as materialized (
  select * from json_to_recordset(%(changes)s::json) as a (run_id uuid, batch_id uuid, executor uuid,
    wake_at timestamptz, progress text, leaves boolean, status text, error json, output_of text)
), mine as materialized (
  select b.id from batches b where (b.id, b.executor) in (select batch_id, executor from asked)
  order by b.id for key share
), above as materialized (
  select w.run_id from run_work w where w.run_id = any(%(parents)s) order by w.run_id for no key update
), held as materialized (
  select w.run_id, w.started_at, w.batch_id, w.lost from run_work w
  join asked a on a.run_id = w.run_id and a.batch_id = w.batch_id join mine m on m.id = w.batch_id
  where w.status = 'running' and (select count(*) from above) >= 0 order by w.run_id for update of w
), records as materialized (
  select n.* from json_to_recordset(%(records)s::json) as n ({_RECORD}) join held using (run_id)
), items as (
  insert into run_step_items (run_id, step_id, item, status, output, error, attempts, credits_used)
  select run_id, step_id, item, status, output::json, error, attempts, credits_used
  from records where item is not null order by run_id, step_id, item
  on conflict do nothing
), steps as (
  insert into run_steps (run_id, step_id, position, status, input, output, error, attempts, credits_used,
                         started_at, completed_at, gathered)
  select run_id, step_id, position, status, input::json, output::json, error, attempts, credits_used,
    started_at, completed_at, gathered
  from records where item is null order by run_id, step_id
  on conflict do nothing
), ended as (
  update runs r set status = a.status, error = a.error, completed_at = now(), output_of = a.output_of,
    started_at = h.started_at, batch_id = h.batch_id
  from asked a join held h using (run_id)
  where a.status is not null and r.id = a.run_id and r.completed_at is null and r.id = any(%(ended)s)
  returning r as run, r.account_id, r.automation_id
), told as materialized (
  select case when count(*) > 0 then emit_events(
    array_agg(time_ordered_id()), array_agg(e.account_id), array_agg('workflow.run.' || (e.run).status),
    array_agg(run_event(e.run, n.name))) end as deliveries
  from ended e join automations n on n.id = e.automation_id
  where exists (select from endpoints p where p.account_id = e.account_id and p.is_active)
), handled as materialized (
  select count(start_after_failure(e.run, n.name, f.handler, %(priority)s, %(deepest)s)) as runs
  from unnest(%(failed)s::uuid[], %(handlers)s::uuid[]) as f (id, handler)
  join ended e on (e.run).id = f.id join automations n on n.id = e.automation_id
), followed as materialized (
  select case when cardinality(%(parents)s::uuid[]) > 0 then array(select wake_runs(%(parents)s)) end,
    case when cardinality(%(orphaning)s::uuid[]) > 0 then array(select cancel_children(array(
      select run_id from held where run_id = any(%(orphaning)s)))) end
), gone as (
  delete from run_work w using asked a, held h
  where a.status is not null and a.run_id = h.run_id and w.run_id = h.run_id
), waiting as (
  update run_work w set progress = a.progress::json, lost = 0,
    status = case when not a.leaves then w.status when w.woken then 'queued' else 'waiting' end,
    batch_id = case when a.leaves and w.woken then null else w.batch_id end,
    wake_at = case when a.leaves and w.woken then null else a.wake_at end,
    available_at = case when a.leaves and w.woken then now() else w.available_at end
  from asked a join held using (run_id)
  where a.status is null and a.progress is not null and w.run_id = a.run_id
), progressed as (
  update run_work w set lost = 0 from asked a join held h using (run_id)
  where a.status is null and a.progress is null and h.lost > 0 and w.run_id = a.run_id
)
select held.run_id from held cross join told cross join handled cross join followed
"""


async def write(connection: Connection, changes: Sequence[Change]) -> set[UUID]:
    """Write what became of runs, each fenced by its lease, all in one statement or nothing of it.

    Args:
        connection: outside a transaction.
        changes: one a run at the most, and of no run beside one of its parent.

    Returns:
        The runs that were written; what is missing is its executor's no longer.
    """
    asked = b"[" + b",".join(change.written for change in changes) + b"]"
    records = _listed(b"".join(change.written_records for change in changes))
    ends = [(change, change.then) for change in changes if isinstance(change.then, End)]
    failed = [(change.run_id, end.handler) for change, end in ends if end.handler is not None]
    wanted: dict[str, Any] = {
        "changes": asked.decode(),
        "records": records,
        "ended": [change.run_id for change, _ in ends],
        "failed": [run_id for run_id, _ in failed],
        "handlers": [handler for _, handler in failed],
        "parents": [change.parent_run_id for change, _ in ends if change.parent_run_id is not None],
        "orphaning": [change.run_id for change, end in ends if end.has_children],
        "priority": BULK,
        "deepest": MAX_DEPTH,
    }
    cursor = await connection.execute(_WRITE, wanted)
    return {row["run_id"] for row in await cursor.fetchall()}


_APPEND = f"""
with records as materialized (
  select n.* from json_to_recordset(%(records)s::json) as n ({_RECORD})
  join runs r on r.id = n.run_id and r.id = any(%(ids)s) and r.status = 'cancelled'
    and (n.status = 'cancelled' or n.completed_at <= r.completed_at)
), items as (
  insert into run_step_items (run_id, step_id, item, status, output, error, attempts, credits_used)
  select run_id, step_id, item, status, output::json, error, attempts, credits_used
  from records where item is not null order by run_id, step_id, item
  on conflict do nothing
)
insert into run_steps (run_id, step_id, position, status, input, output, error, attempts, credits_used,
                       started_at, completed_at, gathered)
select run_id, step_id, position, status, input::json, output::json, error, attempts, credits_used,
  started_at, completed_at, gathered
from records where item is null order by run_id, step_id
on conflict do nothing
"""


async def append(connection: Connection, records: Sequence[StepRecord]) -> None:
    """Write what an executor did in runs until they were cancelled, where they are without it."""
    ids = list({record.run_id for record in records})
    await connection.execute(_APPEND, {"records": _listed(_written_records(records)), "ids": ids})


def _written_change(change: Change) -> dict[str, Any]:
    written: dict[str, Any] = {
        "run_id": change.run_id, "batch_id": change.lease.batch_id, "executor": change.lease.executor
    }  # fmt: skip
    match change.then:
        case None:
            return written
        case Wait(wake_at, progress, leaves):
            return {**written, "wake_at": wake_at, "progress": progress, "leaves": leaves}
        case End(status, error, output_of, _, _):
            why = error and error.model_dump(exclude_none=True)
            return {**written, "status": status, "error": why, "output_of": output_of}


def _written_records(records: Sequence[StepRecord]) -> bytes:
    return b"".join(orjson.dumps(_written_record(record)) + b"," for record in records)


def _written_record(record: StepRecord) -> dict[str, Any]:
    """Data may hold a NUL: a column of type json keeps it, but the functions that take JSON apart fail.

    So it goes as text.
    """
    return {
        **record._asdict(),
        "input": _text(record.input),
        "output": _text(record.output),
        "error": record.error and record.error.model_dump(exclude_none=True),
    }


def _text(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _listed(records: bytes) -> str:
    return f"[{records[:-1].decode()}]"


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
