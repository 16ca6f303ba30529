"""The work of deliveries: a row for each that has not ended, and the batches in which they are sent.

A delivery is `queued`, `running` in the batch that has claimed it, or `waiting` for its next attempt; the
workflow of the batch holds the timer. Results of attempts are written under the fence of the batch's
executor: a new executor stores its own id in the batch, and later writes of the one before are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import orjson
from sqlalchemy import Boolean, CheckConstraint, Column, DateTime, Index, Integer, Text, text
from sqlmodel import Field, SQLModel

from database import Connection
from models.work_queue import WorkflowTable
from tracing import NO_ORIGIN, Origin

MAX_ROWS = 256
"""The highest number of deliveries in a claim."""
ACCOUNT_WINDOW = 192
"""The highest number of deliveries of an account that are at work."""
# After this many failures in a row an endpoint gets this many requests in this many seconds, and has no more
# at work, until one succeeds.
_STRIKES, _THROTTLED_ROWS, _THROTTLED_SECONDS = 4, 32, 1.0


class DeliveryWork(SQLModel, table=True):
    """A delivery that has not ended.

    Attributes:
        attempts: the number of attempts.
        tries: the number of attempts since it last began its schedule.
        manual: whether the next attempt was requested by hand.
    """

    __tablename__ = "delivery_work"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("status in ('queued', 'running', 'waiting')", name="status"),
        Index(
            "ix_delivery_work_queued", "endpoint_id", "available_at", "delivery_id",
            postgresql_where="status = 'queued'",
        ),
        Index(
            "ix_delivery_work_running", "account_id", "endpoint_id", postgresql_where="status = 'running'"
        ),
        Index("ix_delivery_work_batch", "batch_id", postgresql_where="batch_id is not null"),
        Index("ix_delivery_work_wake", "wake_at", postgresql_where="status = 'waiting'"),
        Index("ix_delivery_work_endpoint", "endpoint_id"),
        {"postgresql_with": {"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.01}},
    )  # fmt: skip

    delivery_id: UUID = Field(primary_key=True)
    event_id: UUID
    account_id: UUID
    endpoint_id: UUID
    status: str = Field(sa_type=Text)
    available_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    batch_id: UUID | None
    wake_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    attempts: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    tries: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    manual: bool = Field(sa_column=Column(Boolean, nullable=False, server_default="false"))


class DeliveryBatchRow(SQLModel, table=True):
    """Deliveries that were claimed together.

    Attributes:
        executor: the attempt at the activity that sends them; null before the first.
        started_at: when Temporal accepted the start of its workflow.
        probed_at: when it was claimed, or its workflow was last probed.
    """

    __tablename__ = "delivery_batches"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_delivery_batches_unstarted", "probed_at", postgresql_where="started_at is null"),
        {"postgresql_with": {"fillfactor": 50}},
    )

    id: UUID = Field(primary_key=True)
    executor: UUID | None
    deliveries: int
    started_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    probed_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )


class Batch(NamedTuple):
    """A batch whose workflow must be started, and the number of its deliveries."""

    id: UUID
    deliveries: int


BATCHES = WorkflowTable(
    name="delivery_batches",
    columns="id, deliveries",
    claimed=Batch,
    begun="started_at",
    at_work="(started_at is null"
    " or id = any(array(select distinct batch_id from delivery_work where status = 'running')))",
)


class Claim(NamedTuple):
    """The result of a claim.

    Attributes:
        claimed: the number of deliveries in the batch; with 0 there is no batch.
        seconds: the time until a paused or rate-limited endpoint can be served; None if there is none.
    """

    claimed: int
    seconds: float | None


async def claim(connection: Connection, batch_id: UUID, *, window: int, rows: int = MAX_ROWS) -> Claim | None:
    """Claim queued deliveries of all endpoints, up to `rows`; return None if none wait.

    Accounts and endpoints that were served longest ago go first. An account has at most as many deliveries at
    work as are free, and at most a quarter of a batch while others wait; an endpoint at most as many as its
    account has free.

    Args:
        connection: outside a transaction.
        batch_id: the id of the new batch.
        window: the highest number of deliveries that the installation has at work.
        rows: the highest number of deliveries to claim.
    """
    cursor = await connection.execute(
        "select * from claim_deliveries(%s, %s, %s, %s, %s, %s, %s)",
        (batch_id, rows, window, ACCOUNT_WINDOW, _STRIKES, _THROTTLED_ROWS, _THROTTLED_SECONDS),
    )
    row = await cursor.fetchone()
    return Claim(**row) if row else None


@dataclass(frozen=True)
class Delivery:
    """A delivery to send.

    Attributes:
        sealed: the endpoint's secrets and headers.
        attempts: the number of earlier attempts.
        tries: the number of those since it last began its schedule.
        manual: whether this attempt was requested by hand.
        data: of the event, as JSON.
        depth: the number of runs that led to the event; None for none.
        run_id: the run that the event tells of, if it does.
        origin: the request, or the run, that started this run.
    """

    delivery_id: UUID
    account_id: UUID
    endpoint_id: UUID
    url: str
    sealed: bytes
    attempts: int
    tries: int
    manual: bool
    event_id: UUID
    event_type: str
    data: str
    created_at: datetime
    depth: int | None = None
    run_id: UUID | None = None
    origin: Origin = NO_ORIGIN


# The types whose `run_id` is a run of a workflow.
_OF_RUNS = frozenset({
    "workflow.run.completed", "workflow.run.failed", "workflow.alert", "lookup.completed"
})  # fmt: skip
_LOAD: LiteralString = """
select w.delivery_id, w.account_id, w.endpoint_id, p.url, p.sealed, w.attempts, w.tries, w.manual,
  w.event_id, e.type as event_type, e.data::text as data, e.created_at
from delivery_work w join endpoints p on p.id = w.endpoint_id
join events e on e.id = w.event_id
where w.batch_id = %s and w.status = 'running' order by w.available_at, w.delivery_id
"""


async def take_batch(connection: Connection, batch_id: UUID, executor: UUID) -> list[Delivery]:
    """Take up a batch, from an earlier executor if there is one; return the deliveries to send.

    Args:
        connection: outside a transaction.
        batch_id: the batch; an unknown one has no deliveries.
        executor: the new fence: from now on only writes under it count.
    """
    async with connection.transaction():
        # An exclusive lock, so that a write that has begun ends first.
        await connection.execute("select from delivery_batches where id = %s for update", (batch_id,))
        await connection.execute(
            "update delivery_batches set executor = %s, probed_at = clock_timestamp() where id = %s",
            (executor, batch_id),
        )
    cursor = await connection.execute(_LOAD, (batch_id,))
    rows = await cursor.fetchall()
    causes = await _find_causes(connection, rows)
    return [Delivery(**row, **causes.get(row["event_id"], {})) for row in rows]


async def _find_causes(
    connection: Connection, rows: Sequence[Mapping[str, Any]]
) -> dict[UUID, dict[str, Any]]:
    """Return the run that led to each event that was caused by one, its origin and depth, by event id."""
    # Decoded one by one: together, the data of many alerts would take a lot of memory.
    told = {
        row["event_id"]: orjson.loads(row["data"])["run_id"] for row in rows if row["event_type"] in _OF_RUNS
    }
    runs = {event_id: UUID(run_id) for event_id, run_id in told.items() if run_id is not None}
    if not runs:
        return {}
    cursor = await connection.execute(
        "select id, coalesce(depth, 0) as depth, traceparent, request_id from runs where id = any(%s)",
        (list(runs.values()),),
    )
    found = {
        row["id"]: {
            "depth": 1 + row["depth"], "run_id": row["id"],
            "origin": Origin(row["traceparent"], row["request_id"]),
        }
        for row in await cursor.fetchall()
    }  # fmt: skip
    return {event_id: found[run_id] for event_id, run_id in runs.items() if run_id in found}


async def find_unsent(connection: Connection, batch_ids: Sequence[UUID]) -> set[UUID]:
    """Return which of these batches have not been taken up."""
    cursor = await connection.execute(
        "select id from delivery_batches where id = any(%s) and executor is null", (list(batch_ids),)
    )
    return {row["id"] for row in await cursor.fetchall()}


_LEFT: LiteralString = """
with left_over as (
  select min(wake_at) as wake_at, count(*) as n from delivery_work where batch_id = %(id)s
), gone as (
  delete from delivery_batches where id = %(id)s and (select n from left_over) = 0
)
select extract(epoch from wake_at - clock_timestamp())::float as seconds from left_over
"""


async def get_batch_state(connection: Connection, batch_id: UUID) -> float | None:
    """Return the seconds until the first delivery of a batch is due; None if none waits.

    A batch without deliveries is deleted.
    """
    cursor = await connection.execute(_LEFT, {"id": batch_id})
    row = await cursor.fetchone()
    return row["seconds"] if row else None


QUEUE: LiteralString = (
    "update delivery_work set status = 'queued', available_at = clock_timestamp(), batch_id = null,"
    " wake_at = null where "
)
"""Queues deliveries; a condition must be appended."""


async def queue_due(connection: Connection, batch_id: UUID) -> tuple[int, float | None]:
    """Queue the deliveries of a batch whose next attempt is due.

    Returns:
        The number of queued deliveries, and the seconds until the next is due; None if none waits.
    """
    cursor = await connection.execute(
        QUEUE + "status = 'waiting' and batch_id = %s and wake_at <= clock_timestamp()", (batch_id,)
    )
    queued = cursor.rowcount
    return queued, await get_batch_state(connection, batch_id)
