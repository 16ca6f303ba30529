"""Runs: one execution of one version of a workflow. The row is the record; Temporal only does the work.

The tables are partitioned by the id of the run, and thus by time (`models/runs/history.py`). Therefore a
statement names the ids of its runs (`id = any(…)`): then it reads only the partitions of their weeks, even in
joins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    SmallInteger,
    Text,
)
from sqlmodel import Field, SQLModel

from database import Connection
from models import run_values
from models.errors import NotFound
from models.run_values import (
    MAX_BYTES,
    OUTPUT_BYTES,
    ROOM,
    SMALL,
    THE_RUN,
    Omitted,
    ValueRef,
    choose,
    show_value,
    value_url,
)
from models.runs import carriers
from models.runs.run_views import RunStatus, RunView, view_of
from models.views import StoredJson

QUEUED_CHANNEL = "runs_queued"
"""Notified after runs were queued. It reaches one worker that has room, on a channel of its own."""
CANCELLED_CHANNEL = "runs_cancelled"
"""Notified after runs were cancelled, with their comma-separated ids: their executors drop them."""
FINISHED_CHANNEL = "runs_finished"
"""Notified after runs ended, with their comma-separated ids: clients that wait for them wake."""

# A notification has less than 8,000 bytes.
_IDS_IN_A_NOTIFICATION = 200


def join_ids(run_ids: Sequence[UUID]) -> list[str]:
    """Return the payloads of the notifications of these runs: their comma-separated ids."""
    starts = range(0, len(run_ids), _IDS_IN_A_NOTIFICATION)
    return [",".join(map(str, run_ids[start : start + _IDS_IN_A_NOTIFICATION])) for start in starts]


def worker_channel(worker_id: UUID) -> str:
    """Return the channel on which a worker is notified of queued runs."""
    return f"{QUEUED_CHANNEL}_{worker_id.hex}"


class Run(SQLModel, table=True):
    """The record of a run. Until it ends, a run also has a row in `run_work`.

    Attributes:
        status: how it ended; null until then.
        output_of: the step whose output is the run's.
        progress: for a cancelled run, the progress of the steps that were under way.
        parent_run_id: the run that has this one as a step, or whose failure it follows.
        depth: the number of runs above it; null for none.
        upload_id: the upload that contains it as a row.
        takeovers: how often a worker was lost while executing it, so that another took it over.
        taken_over_at: the time of the last takeover.
        traceparent: the place in a trace of the request, or the run, that started it.
        request_id: the request.
    """

    __tablename__ = "runs"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint(
            "(status in ('completed', 'failed', 'cancelled')) = (completed_at is not null)", name="status"
        ),
        # Most runs complete, and users search for the others. The status in the predicate keeps the update of
        # an end from being HOT; but pages are filled with new runs, and leave no room for a second version.
        Index(
            "ix_runs_rare_status",
            "account_id",
            "status",
            "id",
            postgresql_where="status in ('failed', 'cancelled')",
        ),
        Index("ix_runs_account_id_id", "account_id", "id"),
        Index("ix_runs_automation_id_id", "automation_id", "id"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID
    automation_id: UUID
    version: int
    status: str | None = Field(sa_type=Text)
    trigger: str = Field(sa_type=Text)
    input: Any = Field(sa_column=Column(JSON))
    request: Any = Field(sa_column=Column(JSON))
    input_bytes: int
    error: Any = Field(sa_column=Column(JSON))
    progress: Any = Field(sa_column=Column(JSON))
    credits_used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    restarted_from: UUID | None
    queued_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    completed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    output_of: str | None = Field(sa_type=Text)
    parent_run_id: UUID | None
    depth: int | None = Field(sa_column=Column(SmallInteger))
    upload_id: UUID | None
    takeovers: int = Field(sa_column_kwargs={"server_default": "0"})
    taken_over_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    traceparent: str | None = Field(sa_type=Text)
    request_id: str | None = Field(sa_type=Text)


class RunStep(SQLModel, table=True):
    """The result of one step of a run. Written once: the first result stays, even if the work is repeated.

    The output of a step that is `gathered` is that of its items.
    """

    __tablename__ = "run_steps"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_partition_by": "RANGE (run_id)"},)

    run_id: UUID = Field(primary_key=True)
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
    items_total: int | None = Field(sa_column=Column(SmallInteger))
    items_failed: int | None = Field(sa_column=Column(SmallInteger))
    attempt_log: Any = Field(sa_column=Column(JSON))
    performed_by: str | None = Field(sa_type=Text)


class RunStepItem(SQLModel, table=True):
    """The result of one item of an iterating step. Written once, like a step."""

    __tablename__ = "run_step_items"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_partition_by": "RANGE (run_id)"},)

    run_id: UUID = Field(primary_key=True)
    step_id: str = Field(sa_column=Column(Text, primary_key=True))
    item: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    status: str = Field(sa_type=Text)
    output: Any = Field(sa_column=Column(JSON))
    error: Any = Field(sa_column=Column(JSON))
    attempts: int = Field(sa_type=SmallInteger)
    credits_used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))


STATUS: LiteralString = (
    "coalesce(r.status,"
    " case when w.status = 'running' and w.wake_at > now() then 'waiting' else w.status end)"
)
"""The status of a run `r` with work `w`, if any: a short wait in its executor counts as `waiting`."""
DEFINITION_STEPS: LiteralString = (
    "(select json_agg(json_build_object('id', s->'id', 'type', s->'type')) from json_array_elements("
    " case json_typeof(v.definition->'steps') when 'array' then v.definition->'steps' end) s"
    " where s->>'id' is not null and s->>'type' is not null)"
)
"""The `id` and `type` of each step of a version `v`."""
_SELECT: tuple[LiteralString, LiteralString] = (
    "select r.id, r.automation_id, r.version, " + STATUS + " as status, r.trigger, r.error,"
    " coalesce(octet_length(r.input::text), 0) as input_bytes, r.credits_used,"
    " r.queued_at, coalesce(r.started_at, w.started_at) as started_at, r.completed_at, r.restarted_from,"
    " r.parent_run_id, r.takeovers, r.taken_over_at, r.output_of,"
    " coalesce(r.progress, w.progress) as progress, a.name, "
    + carriers.SHOWN
    + " as carrier, "
    + DEFINITION_STEPS
    + " as definition_steps from (",
    ") r left join run_work w on w.run_id = r.id"
    " join automations a on a.id = r.automation_id"
    " join automation_versions v on v.automation_id = r.automation_id and v.version = r.version"
    " order by r.id desc",
)
_STEPS: LiteralString = """
select s.run_id, s.step_id, s.status, s.error, s.started_at, s.completed_at, s.performed_by,
  s.items_total, s.items_failed, coalesce(s.attempt_log, '[]') as attempt_log,
  coalesce(i.attempts, s.attempts) as attempts, coalesce(i.credits_used, s.credits_used) as credits_used,
  coalesce(octet_length(s.input::text), 0) as input_bytes, {output_bytes} as output_bytes
from run_steps s
left join lateral (select max(attempts) as attempts, sum(credits_used)::bigint as credits_used
                   from run_step_items i where i.run_id = s.run_id and i.step_id = s.step_id) i on s.gathered
where s.run_id = any(%(ids)s) order by s.position
""".replace("{output_bytes}", OUTPUT_BYTES)


async def get(connection: Connection, account_id: UUID, run_id: UUID, *, room: int = ROOM) -> RunView:
    """Return the run object. Inputs and outputs that do not fit are `Omitted`.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner of the run.
        run_id: the run.
        room: the highest size of its inputs and outputs together, in bytes of JSON.

    Raises:
        NotFound: the run is unknown, or another account's.
    """
    head, tail = _SELECT
    chosen: LiteralString = "select * from runs where account_id = %(account_id)s and id = %(id)s"
    views = await _views(connection, head + chosen + tail, {"account_id": account_id, "id": run_id}, room)
    if not views:
        raise NotFound("run")
    return views[0]


async def get_automation_id(connection: Connection, run_id: UUID) -> UUID:
    """Return the workflow of a run, which must exist."""
    cursor = await connection.execute("select automation_id from runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row["automation_id"]


async def get_ended(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, RunView]:
    """Return those of these runs that have ended, of any account, with values up to `SMALL`."""
    head, tail = _SELECT
    chosen: LiteralString = "select * from runs where id = any(%(ids)s) and completed_at is not null"
    views = await _views(connection, head + chosen + tail, {"ids": list(run_ids)}, SMALL)
    return {view.id: view for view in views}


async def get_output(connection: Connection, run_id: UUID) -> StoredJson | Omitted | None:
    """Return the output of an ended run of any account."""
    query: LiteralString = (
        "select r.output_of, " + OUTPUT_BYTES + " as bytes from runs r"
        " join run_steps s on s.run_id = r.id and s.step_id = r.output_of"
        " where r.id = %(id)s and s.run_id = %(id)s"
    )
    cursor = await connection.execute(query, {"id": run_id, "most": MAX_BYTES})
    if (row := await cursor.fetchone()) is None or not row["bytes"]:
        return None
    ref = ValueRef(run_id, row["output_of"], "output")
    loaded = await run_values.load(connection, [ref]) if row["bytes"] <= ROOM else {}
    return loaded.get(ref) or Omitted(bytes=row["bytes"], url=value_url(ValueRef(run_id, THE_RUN, "output")))


async def _views(
    connection: Connection, query: LiteralString, wanted: dict[str, Any], room: int
) -> list[RunView]:
    cursor = await connection.execute(query, wanted)
    found = await cursor.fetchall()
    if not found:
        return []
    steps = await read_steps(connection, [run["id"] for run in found])
    refs = [ref for run in found for ref in choose(_sizes(run, steps.get(run["id"], [])), room)]
    loaded = await run_values.load(connection, refs)
    return [_view(run, steps.get(run["id"], []), loaded) for run in found]


async def read_steps(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    """Return the finished steps of these runs, in list order, without their inputs and outputs."""
    cursor = await connection.execute(_STEPS, {"ids": list(run_ids), "most": MAX_BYTES})
    steps: dict[UUID, list[dict[str, Any]]] = {}
    for step in await cursor.fetchall():
        steps.setdefault(step["run_id"], []).append(step)
    return steps


def _sizes(run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[ValueRef, int]]:
    """Yield the size of each value in the run object, which contains the output of one step twice."""
    yield ValueRef(run["id"], THE_RUN, "input"), run["input_bytes"]
    for step in steps:
        times = 2 if step["step_id"] == run["output_of"] else 1
        yield ValueRef(run["id"], step["step_id"], "input"), step["input_bytes"]
        yield ValueRef(run["id"], step["step_id"], "output"), times * step["output_bytes"]


def with_values(
    run_id: UUID, step: Mapping[str, Any], loaded: Mapping[ValueRef, StoredJson]
) -> dict[str, Any]:
    """Return the row of a step, with its input and output in the form for answers."""
    refs = (ValueRef(run_id, step["step_id"], "input"), ValueRef(run_id, step["step_id"], "output"))
    return {**step, **{ref.part: show_value(ref, step[f"{ref.part}_bytes"], loaded) for ref in refs}}


def _view(
    run: dict[str, Any], steps: Sequence[Mapping[str, Any]], loaded: Mapping[ValueRef, StoredJson]
) -> RunView:
    rows = [with_values(run["id"], step, loaded) for step in steps]
    output = next((row["output"] for row in rows if row["step_id"] == run["output_of"]), None)
    if isinstance(output, Omitted):
        output = output.model_copy(update={"url": value_url(ValueRef(run["id"], THE_RUN, "output"))})
    given = show_value(ValueRef(run["id"], THE_RUN, "input"), run["input_bytes"], loaded)
    return view_of(run | {"input": given, "output": output}, rows)


async def get_status(connection: Connection, run_id: UUID) -> RunStatus | None:
    """Return the status of a run of any account; None if it does not exist."""
    select: LiteralString = "select " + STATUS + " as status"
    cursor = await connection.execute(
        select + " from runs r left join run_work w on w.run_id = r.id where r.id = %s", (run_id,)
    )
    row = await cursor.fetchone()
    return row["status"] if row else None


class Origin(NamedTuple):
    """The origin of a run beside its input: the request, if it is stored, and the time of acceptance."""

    request: Any
    queued_at: datetime


async def get_origin(connection: Connection, run_id: UUID) -> Origin:
    """Return the origin of a run, which must exist."""
    cursor = await connection.execute("select request, queued_at from runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    assert row is not None
    return Origin(**row)


class Pulse(NamedTuple):
    """A cheap summary of a run; while it stays the same, so does the run object.

    Attributes:
        status: of the run.
        steps: the number of finished steps.
        progress: a digest of the progress under way.
    """

    status: RunStatus
    steps: int
    progress: str | None

    @property
    def ended(self) -> bool:
        """Return whether the run has ended, so that nothing more will change."""
        return self.status in ("completed", "failed", "cancelled")


async def get_pulse(connection: Connection, account_id: UUID, run_id: UUID) -> Pulse:
    """Return the summary of a run.

    Raises:
        NotFound: the run is unknown, or another account's.
    """
    select: LiteralString = (
        "select " + STATUS + " as status, md5(w.progress::text) as progress,"
        " (select count(*)::int from run_steps where run_id = r.id) as steps"
        " from runs r left join run_work w on w.run_id = r.id where r.account_id = %s and r.id = %s"
    )
    cursor = await connection.execute(select, (account_id, run_id))
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("run")
    return Pulse(**row)
