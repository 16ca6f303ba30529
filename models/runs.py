"""Runs: one execution of one version of a workflow. The row is the record; Temporal only does the work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson
from psycopg.types.json import Json
from pydantic import BaseModel
from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    SmallInteger,
    Text,
)
from sqlmodel import Field, SQLModel

from database import Connection
from models.errors import NotFound
from models.identifiers import new_id
from models.targets import Target

RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]
TriggerType = Literal["manual", "webhook"]

MAX_DEDUPE_LENGTH = 255

QUEUED_CHANNEL = "runs_queued"
"""Notified after runs were accepted: dispatchers wake."""
FINISHED_CHANNEL = "runs_finished"
"""Notified after runs ended, with their comma-separated ids: who waits for one wakes, and dispatchers too."""


class Run(SQLModel, table=True):
    """A row is accepted (`queued`), claimed into a batch (`running`), and ends once.

    `batch_id` is the fence: a batch may write only rows that still carry its id and have not ended.
    """

    __tablename__ = "runs"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint(
            "status in ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')", name="status"
        ),
        Index("ix_runs_waiting_in_lane", "lane_id", "id", postgresql_where="status = 'queued'"),
        Index("ix_runs_at_work", "account_id", postgresql_where="status = 'running'"),
        Index("ix_runs_batch", "batch_id", postgresql_where="status in ('running', 'waiting')"),
        Index("ix_runs_wake", "wake_at", postgresql_where="status = 'waiting'"),
        Index(
            "ix_runs_cancel",
            "cancel_requested_at",
            postgresql_where="cancel_requested_at is not null and completed_at is null",
        ),
        Index("ix_runs_account_id_id", "account_id", "id"),
        Index("ix_runs_automation_id_id", "automation_id", "id"),
        Index(
            "uq_runs_dedupe",
            "automation_id",
            "dedupe_key",
            unique=True,
            postgresql_where="dedupe_key is not null",
        ),
        # The table's life is insert, two or three updates, rest: vacuum early, leave room for HOT updates.
        {"postgresql_with": {"autovacuum_vacuum_scale_factor": 0.01, "fillfactor": 80}},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), nullable=False)
    )
    version: int
    lane_id: int = Field(sa_column=Column(ForeignKey("lanes.id", ondelete="CASCADE"), nullable=False))
    status: str = Field(sa_type=Text)
    trigger: str = Field(sa_type=Text)
    input: Any = Field(sa_column=Column(JSON))
    request: Any = Field(sa_column=Column(JSON))
    input_bytes: int
    output: Any = Field(sa_column=Column(JSON))
    error: Any = Field(sa_column=Column(JSON))
    dedupe_key: str | None = Field(sa_type=Text)
    batch_id: UUID | None
    attempts: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default="0"))
    pauses: Any = Field(sa_column=Column(JSON))
    wake_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    cancel_requested_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    credits_used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    queued_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    progressed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    completed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class RunStep(SQLModel, table=True):
    """What one step of a run did. Written once: the first result stands, whoever repeats the work."""

    __tablename__ = "run_steps"  # pyright: ignore[reportAssignmentType]

    run_id: UUID = Field(sa_column=Column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True))
    step_id: str = Field(sa_column=Column(Text, primary_key=True))
    position: int = Field(sa_type=SmallInteger)
    status: str = Field(sa_type=Text)
    input: Any = Field(sa_column=Column(JSON))
    output: Any = Field(sa_column=Column(JSON))
    error: Any = Field(sa_column=Column(JSON))
    attempts: int = Field(sa_type=SmallInteger)
    credits_used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    completed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class StepView(BaseModel, frozen=True):
    """One step of the run object of the API."""

    id: str
    type: str
    status: StepStatus
    input: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    attempts: int = 0
    duration_ms: int | None = None
    credits_used: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None


class RunView(BaseModel, frozen=True):
    """The run object of the API."""

    id: UUID
    workflow_id: UUID
    workflow_name: str
    workflow_version: int
    status: RunStatus
    trigger: TriggerType
    input: Any
    output: Any
    error: dict[str, Any] | None
    steps: list[StepView]
    steps_total: int
    steps_completed: int
    credits_used: int
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None


class RunAccepted(BaseModel, frozen=True):
    """The answer to accepted work."""

    run_id: UUID
    status: Literal["queued"]
    message: str


class Accepted(BaseModel, frozen=True):
    """An accepted run: `repeated` when the same event had been accepted before."""

    run_id: UUID
    repeated: bool


_ACCEPT = (
    "insert into runs (id, account_id, automation_id, version, lane_id, status, trigger, input, request,"
    " input_bytes, dedupe_key, queued_at)"
    " values (%s, %s, %s, %s, %s, 'queued', %s, %s, %s, %s, %s, now())"
    " on conflict (automation_id, dedupe_key) where dedupe_key is not null do nothing returning id"
)


async def accept(
    connection: Connection,
    target: Target,
    trigger: TriggerType,
    payload: Any,
    *,
    request: Mapping[str, Any] | None = None,
    dedupe_key: str | None = None,
) -> Accepted:
    """Accept a run for `target`: once this has committed, it will be done.

    Args:
        connection: inside or outside a transaction; answer the client only after its commit.
        target: from `ingest_target` or `run_target`.
        trigger: what started it.
        payload: the `trigger` of the run's expressions; any JSON value.
        request: headers and query of the triggering request, if the definition reads them.
        dedupe_key: a second event with the same key is the same run.
    """
    request = request if target.reads_request else None
    size = len(orjson.dumps(payload)) + (len(orjson.dumps(request)) if request else 0)
    while True:
        values = (
            new_id(), target.account_id, target.automation_id, target.version, target.lane_id, trigger,
            Json(payload), Json(request) if request else None, size, dedupe_key,
        )  # fmt: skip
        cursor = await connection.execute(_ACCEPT, values)
        if row := await cursor.fetchone():
            return Accepted(run_id=row["id"], repeated=False)
        cursor = await connection.execute(
            "select id from runs where automation_id = %s and dedupe_key = %s",
            (target.automation_id, dedupe_key),
        )
        if row := await cursor.fetchone():
            return Accepted(run_id=row["id"], repeated=True)
        # The first run was deleted between the two statements: accept anew.


async def get(connection: Connection, account_id: UUID, run_id: UUID) -> RunView:
    """The run object, live or final.

    Raises:
        NotFound: unknown, or another account's.
    """
    cursor = await connection.execute(
        "select r.*, a.name, v.definition->'steps' as definition_steps"
        " from runs r join automations a on a.id = r.automation_id"
        " join automation_versions v on v.automation_id = r.automation_id and v.version = r.version"
        " where r.account_id = %s and r.id = %s",
        (account_id, run_id),
    )
    run = await cursor.fetchone()
    if run is None:
        raise NotFound("run")
    cursor = await connection.execute(
        "select * from run_steps where run_id = %s order by position", (run_id,)
    )
    return _view(run, await cursor.fetchall())


async def cancel(connection: Connection, account_id: UUID, run_id: UUID) -> UUID | None:
    """Ask for a run to end. What waits ends at once; what is at work is told to its batch.

    Returns:
        The batch to signal, if the run is at work.

    Raises:
        NotFound: unknown, or another account's.
    """
    cursor = await connection.execute(
        "update runs set cancel_requested_at = coalesce(cancel_requested_at, now()),"
        " status = case when status = 'running' then status else 'cancelled' end,"
        " completed_at = case when status = 'running' then null else now() end"
        " where account_id = %s and id = %s and completed_at is null returning status, batch_id",
        (account_id, run_id),
    )
    row = await cursor.fetchone()
    if row is None:
        await _check_known(connection, account_id, run_id)
        return None
    return row["batch_id"] if row["status"] == "running" else None


async def _check_known(connection: Connection, account_id: UUID, run_id: UUID) -> None:
    cursor = await connection.execute(
        "select 1 from runs where account_id = %s and id = %s", (account_id, run_id)
    )
    if await cursor.fetchone() is None:
        raise NotFound("run")


async def has_ended(connection: Connection, run_id: UUID) -> bool:
    """Whether the run has reached its end."""
    cursor = await connection.execute("select completed_at from runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    return row is not None and row["completed_at"] is not None


def _view(run: dict[str, Any], rows: list[dict[str, Any]]) -> RunView:
    done = {row["step_id"]: row for row in rows}
    definition_steps: list[dict[str, Any]] = run["definition_steps"] or []
    missing: StepStatus = "pending" if run["completed_at"] is None else "skipped"
    pauses: dict[str, dict[str, Any]] = run["pauses"] or {}
    steps = [
        _paused_view(step, pauses[step["id"]], run["status"])
        if step["id"] in pauses and step["id"] not in done
        else _step_view(step, done.get(step["id"]), missing)
        for step in definition_steps
    ]
    return RunView(
        id=run["id"],
        workflow_id=run["automation_id"],
        workflow_name=run["name"],
        workflow_version=run["version"],
        status=run["status"],
        trigger=run["trigger"],
        input=run["input"],
        output=run["output"],
        error=run["error"],
        steps=steps,
        steps_total=len(steps),
        steps_completed=sum(step.status == "completed" for step in steps),
        credits_used=run["credits_used"],
        started_at=run["started_at"],
        completed_at=run["completed_at"],
        duration_ms=_milliseconds(run["started_at"], run["completed_at"]),
    )


def _paused_view(step: dict[str, Any], pause: dict[str, Any], run_status: RunStatus) -> StepView:
    return StepView(
        id=step["id"],
        type=step["type"],
        status="cancelled" if run_status == "cancelled" else "waiting",
        output={"until": pause["until"]},
        attempts=1,
        started_at=datetime.fromisoformat(pause["since"]),
    )


def _step_view(step: dict[str, Any], row: dict[str, Any] | None, missing: StepStatus) -> StepView:
    if row is None:
        return StepView(id=step["id"], type=step["type"], status=missing)
    return StepView(
        id=step["id"],
        type=step["type"],
        duration_ms=_milliseconds(row["started_at"], row["completed_at"]),
        **{name: row[name] for name in row if name in StepView.model_fields},
    )


def _milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))
