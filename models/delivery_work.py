"""The work of deliveries: a row for each that has not ended, and the batches in which they are sent.

A delivery is `queued`, `running` in the batch that has claimed it, or `waiting` for its next attempt; the
workflow of the batch holds the timer. What an attempt brought is written under the fence of the batch's
executor: whoever takes a batch up again puts in its own id, and what the one before still writes is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

import orjson
from sqlalchemy import Boolean, CheckConstraint, Column, DateTime, Index, Integer, Text, text
from sqlmodel import Field, SQLModel

from database import Connection
from models import endpoints

MAX_ROWS = 256
"""How many deliveries are claimed at a time at most."""
ACCOUNT_WINDOW = 192
"""How many deliveries of an account are at work at a time."""
# After so many failures in a row an endpoint gets so many requests in so many seconds, and has no more at
# work, until one succeeds.
_STRIKES, _THROTTLED_ROWS, _THROTTLED_SECONDS = 4, 32, 1.0


class DeliveryWork(SQLModel, table=True):
    """A delivery that has not ended.

    Attributes:
        attempts: how many there were.
        tries: how many of them since it last began the schedule.
        manual: the next attempt was asked for by hand.
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
        executor: the attempt at the activity that sends them; none before the first.
        started_at: when Temporal had accepted the start of its workflow.
        probed_at: when somebody last looked whether its workflow sees to it, or it was claimed.
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


class Claim(NamedTuple):
    """What a claim came to.

    Attributes:
        claimed: how many deliveries the batch has; there is none with 0.
        seconds: until an endpoint that is paused or held to a rate has its turn; None if none is.
    """

    claimed: int
    seconds: float | None


async def claim(connection: Connection, batch_id: UUID, *, window: int, rows: int = MAX_ROWS) -> Claim | None:
    """Claim what waits, of all endpoints together, up to `rows` deliveries; None if nothing waits.

    Accounts and endpoints that were served longest ago go first. An account has at most as many at work as
    are free, and no more than a quarter of a batch while others wait; an endpoint at most as many as its
    account has free.

    Args:
        connection: outside a transaction.
        batch_id: of the batch to be, new.
        window: how many deliveries the installation may have at work.
        rows: how many to claim at most.
    """
    cursor = await connection.execute(
        "select * from claim_deliveries(%s, %s, %s, %s, %s, %s, %s)",
        (batch_id, rows, window, ACCOUNT_WINDOW, _STRIKES, _THROTTLED_ROWS, _THROTTLED_SECONDS),
    )
    row = await cursor.fetchone()
    return Claim(**row) if row else None


@dataclass(frozen=True)
class Delivery:
    """A delivery that is to be sent.

    Attributes:
        sealed: the endpoint's secrets and headers.
        attempts: how many there were.
        tries: how many of them since it last began the schedule.
        manual: this one was asked for by hand.
        data: of the event, as JSON.
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


_LOAD: LiteralString = """
select w.delivery_id, w.account_id, w.endpoint_id, p.url, p.sealed, w.attempts, w.tries, w.manual,
  w.event_id, e.type as event_type, e.data::text as data, e.created_at
from delivery_work w join endpoints p on p.id = w.endpoint_id
join events e on e.id = w.event_id
where w.batch_id = %s and w.status = 'running' order by w.available_at, w.delivery_id
"""


async def take(connection: Connection, batch_id: UUID, executor: UUID) -> list[Delivery]:
    """Take a batch up, from whoever had it before. Returns what of it is to be sent.

    Args:
        connection: outside a transaction.
        batch_id: of the batch; an unknown one has nothing.
        executor: the fence, new: from now on only what is written under it counts.
    """
    async with connection.transaction():
        # Exclusively, so that a write that has begun is over before.
        await connection.execute("select from delivery_batches where id = %s for update", (batch_id,))
        await connection.execute(
            "update delivery_batches set executor = %s, probed_at = clock_timestamp() where id = %s",
            (executor, batch_id),
        )
    cursor = await connection.execute(_LOAD, (batch_id,))
    return [Delivery(**row) for row in await cursor.fetchall()]


async def find_unsent(connection: Connection, batch_ids: Sequence[UUID]) -> set[UUID]:
    """Find which of some batches nobody has taken up yet."""
    cursor = await connection.execute(
        "select id from delivery_batches where id = any(%s) and executor is null", (list(batch_ids),)
    )
    return {row["id"] for row in await cursor.fetchall()}


Ending = Literal["delivered", "failed", "retry"]


@dataclass(frozen=True)
class Attempt:
    """What one attempt brought.

    Attributes:
        duration_ms: how long it took.
        response_status: None if no answer came.
        response_body: its beginning, without NUL.
        code: of the failure; None if it succeeded.
        message: the same for people.
        retry_after: seconds that the receiver asked to wait.
    """

    manual: bool
    started_at: datetime
    duration_ms: int
    response_status: int | None
    response_body: str | None
    code: str | None = None
    message: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True)
class Change:
    """What is to be written of an attempt.

    Attributes:
        ending: what becomes of the delivery.
        delay: seconds to its next attempt, if there is one.
        pause: seconds for which the endpoint gets nothing.
        gone: the receiver says that the endpoint is gone for good.
        ours: the fault is the service's own, and is not held against the endpoint.
    """

    batch_id: UUID
    executor: UUID
    delivery_id: UUID
    attempt: Attempt
    ending: Ending
    delay: float = 0
    pause: float = 0
    gone: bool = False
    ours: bool = False

    @property
    def size(self) -> int:
        """Roughly the bytes of it."""
        return 512 + len(self.attempt.response_body or "")


_RECORD: LiteralString = """
with asked as materialized (
  select * from json_to_recordset(%(changes)s::json) as a (delivery_id uuid, batch_id uuid, executor uuid,
    manual boolean, started_at timestamptz, duration_ms integer, response_status integer, response_body text,
    error json, ending text, delay float, pause float, gone boolean, ours boolean)
), mine as materialized (
  select b.id, b.executor from delivery_batches b
  where (b.id, b.executor) in (select batch_id, executor from asked) order by b.id for key share
), held as materialized (
  select w.delivery_id, a.executor, w.endpoint_id, w.attempts + 1 as attempts, w.tries + 1 as tries
  from delivery_work w join asked a on a.delivery_id = w.delivery_id and a.batch_id = w.batch_id
  join mine m on m.id = a.batch_id and m.executor = a.executor
  where w.status = 'running' order by w.delivery_id for update of w
), attempts as (
  insert into delivery_attempts (delivery_id, number, trigger, started_at, duration_ms, response_status,
                                 response_body, error)
  select delivery_id, h.attempts, case when a.manual then 'manual' else 'scheduled' end, a.started_at,
    a.duration_ms, a.response_status, a.response_body, a.error
  from asked a join held h using (delivery_id, executor)
), changed as (
  update deliveries d set attempts = h.attempts, last_attempt_at = a.started_at,
    status = case a.ending when 'retry' then 'pending' else a.ending end,
    next_attempt_at = case a.ending when 'retry' then clock_timestamp() + make_interval(secs => a.delay) end
  from asked a join held h using (delivery_id, executor)
  where d.id = a.delivery_id and d.id = any(%(ids)s)
), gone as (
  delete from delivery_work w using asked a join held h using (delivery_id, executor)
  where a.ending <> 'retry' and w.delivery_id = a.delivery_id
), waiting as (
  update delivery_work w set status = 'waiting', attempts = h.attempts, tries = h.tries, manual = false,
    wake_at = clock_timestamp() + make_interval(secs => a.delay)
  from asked a join held h using (delivery_id, executor)
  where a.ending = 'retry' and w.delivery_id = a.delivery_id
), told as materialized (
  select h.endpoint_id, bool_or(a.ending = 'delivered') as succeeded, count(*)::integer as failures,
    min(a.started_at) filter (where a.ending <> 'delivered') as failed_at, max(a.pause) as pause,
    bool_or(a.gone) as gone
  from asked a join held h using (delivery_id, executor) where not a.ours group by h.endpoint_id
), locked as materialized (
  select e.id from endpoints e join told t on t.endpoint_id = e.id
  where not t.succeeded or t.gone or t.pause > 0 or e.strikes > 0 or e.failing_since is not null
  order by e.id for no key update of e
), states as (
  update endpoints e set
    strikes = case when t.succeeded then 0 else least(e.strikes + t.failures, 1000) end,
    failing_since = case when t.succeeded then null else coalesce(e.failing_since, t.failed_at) end,
    paused_until = case when t.pause > 0
      then greatest(e.paused_until, clock_timestamp() + make_interval(secs => t.pause))
      when t.succeeded then null else e.paused_until end
  from told t join locked l on l.id = t.endpoint_id where e.id = t.endpoint_id
  returning e.id, t.gone, t.failed_at - e.failing_since >= %(patience)s as failing
)
select h.delivery_id, null::uuid as endpoint_id, null::text as reason from held h
union all
select null, id, case when gone then 'gone' else 'failing' end from states where gone or failing
"""


async def record(connection: Connection, changes: Sequence[Change]) -> set[UUID]:
    """Write what attempts brought, each fenced by its batch; call it in a transaction.

    An endpoint that is gone, or has only failed for five days, is switched off with that.

    Args:
        connection: inside a transaction.
        changes: one a delivery at the most.

    Returns:
        The deliveries that were written; what is missing is its executor's no longer.
    """
    cursor = await connection.execute(
        _RECORD,
        {
            "changes": orjson.dumps([_written(change) for change in changes]).decode(),
            "ids": [change.delivery_id for change in changes],
            "patience": endpoints.PATIENCE,
        },
    )
    rows = await cursor.fetchall()
    for row in rows:
        if row["endpoint_id"] is not None:
            await endpoints.disable(connection, row["endpoint_id"], row["reason"])
    return {row["delivery_id"] for row in rows if row["delivery_id"] is not None}


def _written(change: Change) -> dict[str, Any]:
    attempt = change.attempt
    return {
        "delivery_id": change.delivery_id, "batch_id": change.batch_id, "executor": change.executor,
        "manual": attempt.manual, "started_at": attempt.started_at, "duration_ms": attempt.duration_ms,
        "response_status": attempt.response_status, "response_body": attempt.response_body,
        "error": attempt.code and {"code": attempt.code, "message": attempt.message},
        "ending": change.ending, "delay": change.delay, "pause": change.pause, "gone": change.gone,
        "ours": change.ours,
    }  # fmt: skip


_LEFT: LiteralString = """
with left_over as (
  select min(wake_at) as wake_at, count(*) as n from delivery_work where batch_id = %(id)s
), gone as (
  delete from delivery_batches where id = %(id)s and (select n from left_over) = 0
)
select extract(epoch from wake_at - clock_timestamp())::float as seconds from left_over
"""


async def look(connection: Connection, batch_id: UUID) -> float | None:
    """Say in how many seconds the first delivery of a batch is due; None if none waits.

    A batch that has no delivery left is gone with that.
    """
    cursor = await connection.execute(_LEFT, {"id": batch_id})
    row = await cursor.fetchone()
    return row["seconds"] if row else None


WAKE: LiteralString = (
    "update delivery_work set status = 'queued', available_at = clock_timestamp(), batch_id = null,"
    " wake_at = null where status = 'waiting'"
)
"""Queues deliveries that wait; to be completed by which."""


async def queue_due(connection: Connection, batch_id: UUID) -> tuple[int, float | None]:
    """Queue the deliveries of a batch whose next attempt is due.

    Returns:
        How many were queued, and the seconds until the next is due; None if none waits.
    """
    cursor = await connection.execute(
        WAKE + " and batch_id = %s and wake_at <= clock_timestamp()", (batch_id,)
    )
    queued = cursor.rowcount
    return queued, await look(connection, batch_id)
