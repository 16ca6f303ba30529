"""Runs: one execution of one version of a workflow. The row is the record; Temporal only does the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

import orjson
from psycopg.types.json import Json
from pydantic import BaseModel
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
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
from models import run_counts
from models.errors import NotFound
from models.identifiers import new_id
from models.run_views import RunStatus, RunView, TriggerType, view_of
from models.targets import Target

MAX_DEDUPE_LENGTH = 255

QUEUED_CHANNEL = "runs_queued"
"""Notified after runs were accepted: dispatchers wake."""
FINISHED_CHANNEL = "runs_finished"
"""Notified after runs ended, with their comma-separated ids: who waits for one wakes, and dispatchers too."""


class Run(SQLModel, table=True):
    """A row is accepted (`queued`), claimed into a batch (`running`), and ends once.

    `batch_id` is the fence: a batch may write only rows that still carry its id and have not ended. Where
    `output_of` names a step, the output is that step's.
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
        Index("ix_runs_unfinished", "automation_id", "id", postgresql_where="completed_at is null"),
        # Most runs complete: these are what one looks for among them, and they cost the others nothing.
        Index(
            "ix_runs_rare_status",
            "account_id",
            "status",
            "id",
            postgresql_where="status in ('waiting', 'failed', 'cancelled')",
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
    progress: Any = Field(sa_column=Column(JSON))
    wake_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    cancel_requested_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    credits_used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    restarted_from: UUID | None
    engine_failures: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default="0"))
    queued_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    progressed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    completed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    output_of: str | None = Field(sa_type=Text)


class RunStep(SQLModel, table=True):
    """What one step of a run did. Written once: the first result stands, whoever repeats the work.

    The output of one that is `gathered` is that of its items.
    """

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
    gathered: bool = Field(sa_column=Column(Boolean, nullable=False, server_default="false"))


class RunStepItem(SQLModel, table=True):
    """What one item of an iterating step did. Written once, like a step."""

    __tablename__ = "run_step_items"  # pyright: ignore[reportAssignmentType]

    run_id: UUID = Field(sa_column=Column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True))
    step_id: str = Field(sa_column=Column(Text, primary_key=True))
    item: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    status: str = Field(sa_type=Text)
    output: Any = Field(sa_column=Column(JSON))
    error: Any = Field(sa_column=Column(JSON))
    attempts: int = Field(sa_type=SmallInteger)
    credits_used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))


class RunAccepted(BaseModel, frozen=True):
    """The answer to accepted work."""

    run_id: UUID = Field(description="The run's id.")
    status: Literal["queued"] = Field(description="It waits for its turn.")
    message: str = Field(description="The same for people.")


class Accepted(BaseModel, frozen=True):
    """An accepted run: `repeated` when the same event had been accepted before."""

    run_id: UUID
    repeated: bool


@dataclass(frozen=True)
class Event:
    """What asks for a run.

    Attributes:
        target: from `models.targets`.
        trigger: what started it.
        payload: the `trigger` of the run's expressions; any JSON value.
        request: headers and query of the triggering request; kept if the definition reads them.
        dedupe_key: a second event with the same key is the same run.
        run_id: of the run. Accepting the very same event again changes nothing.
    """

    target: Target
    trigger: TriggerType
    payload: Any
    request: Mapping[str, Any] | None = None
    dedupe_key: str | None = None
    run_id: UUID = field(default_factory=new_id)

    @cached_property
    def written_payload(self) -> bytes:
        """The payload as JSON."""
        return orjson.dumps(self.payload)

    @cached_property
    def written_request(self) -> bytes | None:
        """The request as JSON, where it is kept."""
        return orjson.dumps(self.request) if self.request and self.target.reads_request else None

    @property
    def size(self) -> int:
        """The bytes of what is kept."""
        return len(self.written_payload) + len(self.written_request or b"")


# Sorted, so that two processes that accept the same keys cannot wait for each other. The JSON is sent as
# binary: as text, every quote in it would be escaped in Python.
_ACCEPT = """
insert into runs (id, account_id, automation_id, version, lane_id, status, trigger, input, request,
                  input_bytes, dedupe_key, queued_at)
select n.id, n.account_id, n.automation_id, n.version, n.lane_id, 'queued', n.trigger, n.input, n.request,
  n.input_bytes, n.dedupe_key, now()
from unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::int[], %s::bigint[], %s::text[], %b::json[], %b::json[],
            %s::int[], %s::text[])
  as n (id, account_id, automation_id, version, lane_id, trigger, input, request, input_bytes, dedupe_key)
order by n.automation_id, n.dedupe_key
on conflict do nothing returning id
"""


async def accept(connection: Connection, events: Sequence[Event]) -> list[Accepted]:
    """Accept runs: once this has committed, they will be done. Answer clients only after that."""
    accepted: dict[UUID, Accepted] = {}
    while left := [event for event in events if event.run_id not in accepted]:
        columns = [list(column) for column in zip(*map(_row, left), strict=True)]
        cursor = await connection.execute(_ACCEPT, columns)
        inserted = {row["id"] for row in await cursor.fetchall()}
        for event in left:
            if event.dedupe_key is None or event.run_id in inserted:
                accepted[event.run_id] = Accepted(run_id=event.run_id, repeated=False)
                continue
            before = await accepted_before(connection, event.target.automation_id, event.dedupe_key)
            # None: the first run was deleted between the two statements; accept anew.
            if before is not None:
                repeated = before.run_id != event.run_id
                accepted[event.run_id] = before.model_copy(update={"repeated": repeated})
    return [accepted[event.run_id] for event in events]


def _row(event: Event) -> tuple[Any, ...]:
    target = event.target
    return (
        event.run_id, target.account_id, target.automation_id, target.version, target.lane_id, event.trigger,
        _written(event.written_payload), _written(event.written_request), event.size, event.dedupe_key,
    )  # fmt: skip


def _written(text: bytes | None) -> Json | None:
    return None if text is None else Json(text, dumps=bytes)


async def accepted_before(connection: Connection, automation_id: UUID, dedupe_key: str) -> Accepted | None:
    """The run that was accepted with this key, if there is one."""
    cursor = await connection.execute(
        "select id from runs where automation_id = %s and dedupe_key = %s", (automation_id, dedupe_key)
    )
    row = await cursor.fetchone()
    return Accepted(run_id=row["id"], repeated=True) if row else None


# The page is chosen before the joins, so that what is left out costs nothing.
_SELECT: tuple[LiteralString, LiteralString] = (
    "select r.*, a.name, (select json_agg(json_build_object('id', s->'id', 'type', s->'type'))"
    "  from json_array_elements(v.definition->'steps') s) as definition_steps"
    " from (select * from runs where ",
    ") r join automations a on a.id = r.automation_id"
    " join automation_versions v on v.automation_id = r.automation_id and v.version = r.version"
    " order by r.id desc",
)


async def get(connection: Connection, account_id: UUID, run_id: UUID) -> RunView:
    """The run object, as far as its rows know.

    Raises:
        NotFound: unknown, or another account's.
    """
    head, tail = _SELECT
    wanted = {"account_id": account_id, "id": run_id}
    views = await _views(connection, head + "account_id = %(account_id)s and id = %(id)s" + tail, wanted)
    if not views:
        raise NotFound("run")
    return views[0]


async def list_page(
    connection: Connection,
    account_id: UUID,
    *,
    automation_id: UUID | None,
    status: RunStatus | None,
    page: int,
    limit: int,
) -> tuple[list[RunView], int]:
    """A page of the account's runs (from 1), newest first, and how many there are in all."""
    wanted = {
        "account_id": account_id, "automation_id": automation_id, "status": status, "limit": limit,
        "offset": (page - 1) * limit,
    }  # fmt: skip
    where: LiteralString = "account_id = %(account_id)s"
    if automation_id is not None:
        where += " and automation_id = %(automation_id)s"
    if status is not None:
        where += " and status = %(status)s"
    head, tail = _SELECT
    paged = head + where + " order by id desc limit %(limit)s offset %(offset)s" + tail
    views = await _views(connection, paged, wanted)
    total = await run_counts.count(connection, account_id, automation_id=automation_id, status=status)
    return views, total


async def _views(connection: Connection, query: LiteralString, wanted: dict[str, Any]) -> list[RunView]:
    cursor = await connection.execute(query, wanted)
    found = await cursor.fetchall()
    cursor = await connection.execute(
        "select * from run_steps where run_id = any(%s) order by position", ([run["id"] for run in found],)
    )
    steps: dict[UUID, list[dict[str, Any]]] = {}
    for step in await cursor.fetchall():
        steps.setdefault(step["run_id"], []).append(step)
    return [view_of(run, steps.get(run["id"], [])) for run in found]


class Pulse(NamedTuple):
    """What is cheap to know of a run; while it stays the same, so do the run's rows.

    Attributes:
        status: of the run.
        steps: how many are done.
        batch_id: of the batch that is at work on it, if one is.
    """

    status: RunStatus
    steps: int
    batch_id: UUID | None

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.status in ("completed", "failed", "cancelled")


async def pulse(connection: Connection, account_id: UUID, run_id: UUID) -> Pulse:
    """How far the run is.

    Raises:
        NotFound: unknown, or another account's.
    """
    cursor = await connection.execute(
        "select status, case when status = 'running' then batch_id end as batch_id,"
        " (select count(*)::int from run_steps where run_id = r.id) as steps"
        " from runs r where account_id = %s and id = %s",
        (account_id, run_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("run")
    return Pulse(**row)


CANCEL: LiteralString = (
    "update runs r set cancel_requested_at = coalesce(cancel_requested_at, now()),"
    " status = case when status = 'running' then status else 'cancelled' end,"
    " completed_at = case when status = 'running' then null else now() end"
)
"""Ends what is queued or waits, and marks what is at work; what follows says which runs, as `r`."""


async def cancel(connection: Connection, account_id: UUID, run_id: UUID) -> UUID | None:
    """Ask for a run to end. What waits ends at once; what is at work is told to its batch.

    Returns:
        The batch to signal, if the run is at work.

    Raises:
        NotFound: unknown, or another account's.
    """
    cursor = await connection.execute(
        CANCEL + " where account_id = %s and id = %s and completed_at is null returning status, batch_id",
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
