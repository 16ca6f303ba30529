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
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

import orjson
from pydantic import TypeAdapter
from sqlalchemy import JSON, CheckConstraint, Column, DateTime, ForeignKey, Index, SmallInteger, Text
from sqlmodel import Field, SQLModel

from database import Connection
from language.records import StepError, StepRecord
from models.identifiers import new_id

SILENT_SECONDS = 10
"""A lease may be taken over after so long without a beat."""


class BatchRow(SQLModel, table=True):
    """A batch of runs that were claimed together, and who executes it.

    Attributes:
        executor: whose lease it is; none while nobody has taken it up.
        worker_id: the worker process that it is in.
        started_at: when Temporal had accepted the start of its workflow.
    """

    __tablename__ = "batches"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    id: UUID = Field(primary_key=True)
    executor: UUID | None
    worker_id: UUID | None
    beat_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class RunWork(SQLModel, table=True):
    """A run that has not ended: one narrow row, gone at its end.

    Attributes:
        begun: it has been claimed before.
        available_at: since when it may be claimed.
        batch_id: the batch whose executor has it, or whose workflow has its timer.
        wake_at: when it goes on by itself.
        woken: somebody wants it to go on before: who would park it queues it instead.
        progress: see `engine.progress`.
    """

    __tablename__ = "run_work"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("state in ('queued', 'running', 'waiting')", name="state"),
        Index("ix_run_work_batch", "batch_id", postgresql_where="batch_id is not null"),
        {"postgresql_with": {"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.01}},
    )

    run_id: UUID = Field(sa_column=Column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True))
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    lane_id: int = Field(sa_column=Column(ForeignKey("lanes.id", ondelete="CASCADE"), nullable=False))
    state: str = Field(sa_type=Text)
    begun: bool = False
    available_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    batch_id: UUID | None
    wake_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    woken: bool = False
    progress: Any = Field(sa_column=Column(JSON))
    lost: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default="0"))


class Lease(NamedTuple):
    """The right of one executor to one batch."""

    batch_id: UUID
    executor: UUID


@dataclass(frozen=True)
class Wait:
    """The run waits, at least for something.

    Attributes:
        wake_at: when it goes on.
        progress: as `engine.progress` has it, as JSON.
        leaves: nothing else of it is at work, and its executor lets go of it.
    """

    wake_at: datetime
    progress: str
    leaves: bool


@dataclass(frozen=True)
class End:
    """The run has ended. Its output is that of the step `output_of`: it is kept once."""

    status: Literal["completed", "failed", "cancelled"]
    error: StepError | None = None
    output_of: str | None = None


@dataclass(frozen=True)
class Change:
    """What a run's executor has to write of it: steps that are done, and whether it waits or has ended."""

    lease: Lease
    run_id: UUID
    records: Sequence[StepRecord] = field(default_factory=list[StepRecord])
    then: Wait | End | None = None


async def take_over(connection: Connection, batch_id: UUID, worker_id: UUID) -> Lease | None:
    """Take a batch that nobody executes, or whose executor is silent; None if somebody does.

    Give it no open transaction: what the batch holds is to be read after it, in a statement of its own, so
    that it shows all that the executor before has written.
    """
    executor = new_id()
    async with connection.transaction():
        # Waits for writes that are under way. The time is asked after the wait: a beat may have come.
        cursor = await connection.execute(
            "select 1 from batches where id = %s and"
            " (executor is null or beat_at < clock_timestamp() - make_interval(secs => %s)) for update",
            (batch_id, SILENT_SECONDS),
        )
        if await cursor.fetchone() is None:
            return None
        await connection.execute(
            "update batches set executor = %s, worker_id = %s, beat_at = clock_timestamp() where id = %s",
            (executor, worker_id, batch_id),
        )
    return Lease(batch_id, executor)


_OF_THESE: LiteralString = (
    " where (id, executor) in (select * from unnest(%s::uuid[], %s::uuid[])) returning id"
)


async def renew(connection: Connection, leases: Collection[Lease]) -> set[UUID]:
    """Beat: prove that the executors live. Returns the batches that they still have."""
    return await _update(connection, "update batches set beat_at = clock_timestamp()" + _OF_THESE, leases)


async def release(connection: Connection, leases: Collection[Lease]) -> set[UUID]:
    """Let go of batches, so that others can take them up at once. Returns those that were held."""
    return await _update(
        connection, "update batches set executor = null, worker_id = null" + _OF_THESE, leases
    )


async def _update(connection: Connection, statement: LiteralString, leases: Collection[Lease]) -> set[UUID]:
    ordered = sorted(leases)
    batches, executors = [lease.batch_id for lease in ordered], [lease.executor for lease in ordered]
    cursor = await connection.execute(statement, (batches, executors))
    return {row["id"] for row in await cursor.fetchall()}


_RECORD = """run_id uuid, step_id text, position smallint, status text, input text, output text, error json,
  attempts smallint, credits_used bigint, started_at timestamptz, completed_at timestamptz, item smallint,
  gathered boolean"""
# `mine` is read first, as what follows joins it, and waits there for a take-over that is under way; what that
# has changed it sees, since it locks. Rows are locked in the order of their ids, steps inserted in theirs.
_WRITE = f"""
with asked as materialized (
  select * from json_to_recordset(%(changes)s::json) as a (run_id uuid, batch_id uuid, executor uuid,
    wake_at timestamptz, progress text, leaves boolean, status text, error json, output_of text)
), mine as materialized (
  select b.id from batches b where (b.id, b.executor) in (select batch_id, executor from asked)
  order by b.id for key share
), held as materialized (
  select w.run_id from run_work w
  join asked a on a.run_id = w.run_id and a.batch_id = w.batch_id join mine m on m.id = w.batch_id
  where w.state = 'running' order by w.run_id for update of w
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
  update runs r set status = a.status, error = a.error, completed_at = now(), output_of = a.output_of
  from asked a join held using (run_id)
  where a.status is not null and r.id = a.run_id and r.completed_at is null
), gone as (
  delete from run_work w using asked a, held h
  where a.status is not null and a.run_id = h.run_id and w.run_id = h.run_id
), waiting as (
  update run_work w set progress = a.progress::json,
    state = case when not a.leaves then w.state when w.woken then 'queued' else 'waiting' end,
    batch_id = case when a.leaves and w.woken then null else w.batch_id end,
    wake_at = case when a.leaves and w.woken then null else a.wake_at end,
    available_at = case when a.leaves and w.woken then now() else w.available_at end
  from asked a join held using (run_id)
  where a.status is null and a.wake_at is not null and w.run_id = a.run_id
)
select run_id from held
"""
_DATA = TypeAdapter[Any](Any)
_RECORDS = TypeAdapter(list[StepRecord])


async def write(connection: Connection, changes: Sequence[Change]) -> set[UUID]:
    """Write what became of runs, each fenced by its lease, all in one statement or nothing of it.

    Args:
        connection: outside a transaction.
        changes: one a run at the most.

    Returns:
        The runs that were written; what is missing is its executor's no longer.
    """
    asked = [_written_change(change) for change in changes]
    records = [_with_data_as_text(record) for change in changes for record in change.records]
    text = _RECORDS.dump_json(records, exclude_none=True).decode()
    cursor = await connection.execute(_WRITE, {"changes": orjson.dumps(asked).decode(), "records": text})
    return {row["run_id"] for row in await cursor.fetchall()}


def _written_change(change: Change) -> dict[str, Any]:
    written: dict[str, Any] = {
        "run_id": change.run_id, "batch_id": change.lease.batch_id, "executor": change.lease.executor
    }  # fmt: skip
    match change.then:
        case None:
            return written
        case Wait(wake_at, progress, leaves):
            return {**written, "wake_at": wake_at, "progress": progress, "leaves": leaves}
        case End(status, error, output_of):
            why = error and error.model_dump(exclude_none=True)
            return {**written, "status": status, "error": why, "output_of": output_of}


def _with_data_as_text(record: StepRecord) -> StepRecord:
    """Data may hold a NUL: a column of type json keeps it, but the functions that take JSON apart fail."""
    given = {"input": record.input, "output": record.output}
    data = {name: _DATA.dump_json(value).decode() for name, value in given.items() if value is not None}
    return record.model_copy(update=data)
