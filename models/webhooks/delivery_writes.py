"""Fenced writes of deliveries: attempts are recorded if the executor still holds their batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

import orjson

from database import Connection
from models.webhooks import endpoints

Ending = Literal["delivered", "failed", "retry"]


@dataclass(frozen=True)
class Attempt:
    """The result of an attempt at a delivery.

    Attributes:
        duration_ms: its duration.
        response_status: None if there was no answer.
        response_body: the beginning of the body, without NUL.
        code: of the failure; None if it succeeded.
        message: the same for people.
        retry_after: the seconds that the receiver asked to wait.
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
    """A change of a delivery: its attempt, and the effects.

    Attributes:
        ending: the next state of the delivery.
        delay: the seconds to its next attempt, if there is one.
        pause: the seconds for which the endpoint gets nothing.
        gone: whether the receiver answered that the endpoint is gone for good.
        ours: whether the fault is the service's own, which does not count against the endpoint.
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
        """The approximate size in bytes."""
        return 512 + len(self.attempt.response_body or "")


_ASKED: LiteralString = """
with asked as materialized (
  select * from json_to_recordset(%(changes)s::json) as a (delivery_id uuid, batch_id uuid, executor uuid,
    manual boolean, started_at timestamptz, duration_ms integer, response_status integer, response_body text,
    error json, ending text, delay float, pause float, gone boolean, ours boolean)
)"""
_LOCK_BATCHES = "select from delivery_batches where id = any(%s) order by id for key share"
_LOCK_WORK = "select from delivery_work where delivery_id = any(%s) order by delivery_id for update"
# All joined rows are locked before: a statement that waits for locks and reads partitions may crash Postgres
# 18 (see `models.runs.run_writes`).
_RECORD: LiteralString = (
    _ASKED
    + """, held as materialized (
  select w.delivery_id, a.executor, w.endpoint_id, w.attempts + 1 as attempts, w.tries + 1 as tries
  from delivery_work w join asked a on a.delivery_id = w.delivery_id and a.batch_id = w.batch_id
  join delivery_batches b on b.id = a.batch_id and b.executor = a.executor
  where w.status = 'running'
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
)
select delivery_id, executor, endpoint_id from held
"""
)
_NOTE_ENDPOINTS: LiteralString = (
    _ASKED
    + """, told as materialized (
  select h.endpoint_id, bool_or(a.ending = 'delivered') as succeeded, count(*)::integer as failures,
    min(a.started_at) filter (where a.ending <> 'delivered') as failed_at, max(a.pause) as pause,
    bool_or(a.gone) as gone
  from asked a
  join unnest(%(written)s::uuid[], %(executors)s::uuid[], %(endpoints)s::uuid[])
    as h (delivery_id, executor, endpoint_id) using (delivery_id, executor)
  where not a.ours group by h.endpoint_id
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
select id, case when gone then 'gone' else 'failing' end as reason from states where gone or failing
"""
)


async def record_attempts_if_leased(connection: Connection, changes: Sequence[Change]) -> set[UUID]:
    """Record attempts, each fenced by its batch; call it in a transaction.

    An endpoint that is gone, or has only failed for five days, is switched off.

    Args:
        connection: inside a transaction.
        changes: at most one for each delivery.

    Returns:
        The deliveries that were written; a missing one no longer belongs to its executor.
    """
    ids = [change.delivery_id for change in changes]
    asked = {"changes": orjson.dumps([_write_change(change) for change in changes]).decode()}
    await connection.execute(_LOCK_BATCHES, (list({change.batch_id for change in changes}),))
    await connection.execute(_LOCK_WORK, (ids,))
    cursor = await connection.execute(_RECORD, {**asked, "ids": ids})
    held = await cursor.fetchall()
    noted = {
        "written": [row["delivery_id"] for row in held],
        "executors": [row["executor"] for row in held],
        "endpoints": [row["endpoint_id"] for row in held],
        "patience": endpoints.PATIENCE,
    }
    cursor = await connection.execute(_NOTE_ENDPOINTS, {**asked, **noted})
    for row in await cursor.fetchall():
        await endpoints.disable(connection, row["id"], row["reason"])
    return {row["delivery_id"] for row in held}


def _write_change(change: Change) -> dict[str, Any]:
    attempt = change.attempt
    return {
        "delivery_id": change.delivery_id, "batch_id": change.batch_id, "executor": change.executor,
        "manual": attempt.manual, "started_at": attempt.started_at, "duration_ms": attempt.duration_ms,
        "response_status": attempt.response_status, "response_body": attempt.response_body,
        "error": attempt.code and {"code": attempt.code, "message": attempt.message},
        "ending": change.ending, "delay": change.delay, "pause": change.pause, "gone": change.gone,
        "ours": change.ours,
    }  # fmt: skip
