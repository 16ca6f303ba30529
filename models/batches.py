"""Batches: how waiting runs are claimed, written while a batch works on them, and ended.

Only a batch that still holds a run may write it: every statement here names the batch and touches no run
that has ended. What a statement does not return, the batch no longer holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Json
from pydantic import TypeAdapter

from database import Connection
from language.records import INLINE_BYTES, StepRecord
from models.batch_loading import MAX_BYTES, loaded
from models.identifiers import new_id
from workflows.messages import Batch, Ending, Parking

MAX_ROWS = 64
MAX_ENGINE_FAILURES = 3
ACCOUNT_WINDOW = 512
STALE_SECONDS = 30


_ROW = (
    "r.id, r.trigger, r.input_bytes, r.started_at, r.progress,"
    " case when r.input_bytes <= %(inline)s then r.input end as input,"
    " case when r.input_bytes <= %(inline)s then r.request end as request"
)

# Lists the lanes that have work by jumping from one to the next in the partial index (a loose index scan:
# its cost is the number of such lanes, not of waiting runs), and locks the one whose turn it is.
_CHOOSE_LANE = """
with recursive waiting as (
  (select lane_id from runs where status = 'queued' order by lane_id limit 1)
  union all
  select (select r.lane_id from runs r where r.status = 'queued' and r.lane_id > w.lane_id
          order by r.lane_id limit 1)
  from waiting w where w.lane_id is not null
), at_work as (
  select account_id, count(*) as n from runs where status = 'running' group by account_id
)
select l.id, l.account_id, l.automation_id, l.version, l.priority
from waiting w
join lanes l on l.id = w.lane_id
join tenants t on t.account_id = l.account_id
left join at_work a on a.account_id = l.account_id
where coalesce(a.n, 0) < %(account_window)s and l.priority <= %(lowest_priority)s
order by l.priority, t.served_at nulls first, l.served_at nulls first, l.id
limit 1 for no key update of l skip locked
"""

_LOCK_TENANT = "select 1 from tenants where account_id = %s for no key update"
# A new statement, so that its snapshot holds what the previous holder of the locks has committed.
# What is too large to travel does not count; a run that the engine has failed with goes alone.
_CLAIM = f"""
with candidates as (
  select id, engine_failures, started_at,
    case when input_bytes <= %(inline)s then input_bytes else 0 end as bytes
  from runs where lane_id = %(lane)s and status = 'queued' order by id
  limit greatest(0, least(%(rows)s, %(account_window)s
        - (select count(*) from runs where status = 'running' and account_id = %(account)s)))
  for update skip locked
), running_total as (
  select id, started_at, row_number() over by_id as place, sum(bytes) over by_id as bytes,
    max(engine_failures) over by_id as failures
  from candidates window by_id as (order by id)
), served as (
  select id, started_at from running_total where place = 1 or (bytes <= %(bytes)s and failures = 0)
), lane as (
  update lanes set served_at = now(),
    runs_total = runs_total + (select count(*) from served where started_at is null)
  where id = %(lane)s and exists (select 1 from served)
), tenant as (
  update tenants set served_at = now() where account_id = %(account)s
)
update runs r set status = 'running', batch_id = %(batch)s, progressed_at = now(),
  started_at = coalesce(r.started_at, now()), attempts = r.attempts + 1
from served s where r.id = s.id
returning {_ROW}, r.attempts > 1 as begun
"""


async def claim(
    connection: Connection,
    *,
    rows: int = MAX_ROWS,
    account_window: int = ACCOUNT_WINDOW,
    lowest_priority: int = 5,
) -> Batch | None:
    """Claim all that waits in the lane whose turn it is, up to `rows` runs and `MAX_BYTES` of input.

    Run it inside a transaction. Lanes go by priority, then by account and by lane served longest ago.
    An account has at most `account_window` runs at work, exactly: its row is locked before they are counted.

    Returns:
        The batch to start, or None when nothing waits that may be served.
    """
    cursor = await connection.execute(
        _CHOOSE_LANE, {"account_window": account_window, "lowest_priority": lowest_priority}
    )
    lane = await cursor.fetchone()
    if lane is None:
        return None
    await connection.execute(_LOCK_TENANT, (lane["account_id"],))
    batch_id = new_id()
    cursor = await connection.execute(
        _CLAIM,
        {
            "lane": lane["id"], "account": lane["account_id"], "batch": batch_id, "rows": rows,
            "bytes": MAX_BYTES, "account_window": account_window, "inline": INLINE_BYTES,
        },
    )  # fmt: skip
    claimed = await cursor.fetchall()
    return await loaded(connection, batch_id, lane, claimed) if claimed else None


async def _held_batch(connection: Connection, batch_id: UUID) -> Batch | None:
    """A batch as it stands: the runs that it still holds, and how far they are. None when it holds none."""
    cursor = await connection.execute(
        f"select {_ROW}, true as begun, l.account_id, l.automation_id, l.version, l.priority"
        " from runs r join lanes l on l.id = r.lane_id"
        " where r.batch_id = %(batch)s and r.status in ('running', 'waiting')",
        {"batch": batch_id, "inline": INLINE_BYTES},
    )
    rows = await cursor.fetchall()
    return await loaded(connection, batch_id, rows[0], rows) if rows else None


# Sorted, so that the partial index is used whatever the statistics say.
_LOAD = """
select (select lane_id from runs where status = 'queued' order by lane_id limit 1) is not null as waits,
  (select count(*)::int from runs where status = 'running') as at_work
"""


async def load(connection: Connection) -> tuple[bool, int]:
    """Whether any run waits in a lane, and how many the whole installation has at work."""
    cursor = await connection.execute(_LOAD)
    row = await cursor.fetchone()
    assert row is not None
    return row["waits"], row["at_work"]


async def held(connection: Connection, batch_id: UUID, run_ids: Sequence[UUID]) -> dict[UUID, bool]:
    """The runs that the batch still holds, each with whether it is to be cancelled; marks their progress."""
    cursor = await connection.execute(
        "update runs set progressed_at = now() where id = any(%s) and batch_id = %s and completed_at is null"
        " returning id, cancel_requested_at is not null as cancelled",
        (list(run_ids), batch_id),
    )
    return {row["id"]: row["cancelled"] for row in await cursor.fetchall()}


async def recorded(connection: Connection, run_ids: Sequence[UUID], step_id: str) -> list[StepRecord]:
    """What is recorded of a step in these runs."""
    cursor = await connection.execute(
        "select * from run_steps where run_id = any(%s) and step_id = %s", (list(run_ids), step_id)
    )
    return [StepRecord.model_validate(row) for row in await cursor.fetchall()]


async def recorded_items(connection: Connection, run_ids: Sequence[UUID], step_id: str) -> list[StepRecord]:
    """What is recorded of the items of a step in these runs."""
    cursor = await connection.execute(
        "select *, 0 as position, now() as started_at, now() as completed_at from run_step_items"
        " where run_id = any(%s) and step_id = %s",
        (list(run_ids), step_id),
    )
    return [StepRecord.model_validate(row) for row in await cursor.fetchall()]


async def stored_values(
    connection: Connection, names: Sequence[tuple[UUID, str]]
) -> dict[tuple[UUID, str], Any]:
    """What is too large to travel: `trigger`, `request`, or the output of a step, by run and name."""
    cursor = await connection.execute(
        "select n.run_id, n.name, case n.name when 'trigger' then r.input when 'request' then r.request"
        " else s.output end as value"
        " from unnest(%s::uuid[], %s::text[]) as n (run_id, name) join runs r on r.id = n.run_id"
        " left join run_steps s on s.run_id = n.run_id and s.step_id = n.name",
        ([run_id for run_id, _ in names], [name for _, name in names]),
    )
    return {(row["run_id"], row["name"]): row["value"] for row in await cursor.fetchall()}


_FIELDS = """run_id uuid, step_id text, position smallint, status text, input text, output text, error json,
  attempts smallint, credits_used bigint, started_at timestamptz, completed_at timestamptz, item smallint,
  gathered boolean"""
# Items first, so that the step that gathers them finds them all: a statement does not see what it inserts.
_RECORD_ITEMS = f"""
insert into run_step_items (run_id, step_id, item, status, output, error, attempts, credits_used)
select n.run_id, n.step_id, n.item, n.status, n.output::json, n.error, n.attempts, n.credits_used
from json_to_recordset(%s::json) as n ({_FIELDS})
join runs r on r.id = n.run_id and r.batch_id = %s and r.completed_at is null
on conflict (run_id, step_id, item) do nothing
"""
_RECORD = f"""
insert into run_steps (run_id, step_id, position, status, input, output, error, attempts, credits_used,
                       started_at, completed_at)
select n.run_id, n.step_id, n.position, n.status, n.input::json, coalesce(n.output::json, i.outputs), n.error,
  coalesce(i.attempts, n.attempts), coalesce(i.credits_used, n.credits_used), n.started_at, n.completed_at
from json_to_recordset(%s::json) as n ({_FIELDS})
join runs r on r.id = n.run_id and r.batch_id = %s and r.completed_at is null
left join lateral (
  select max(attempts) as attempts, coalesce(sum(credits_used), 0) as credits_used,
    case when n.status = 'completed' then coalesce(json_agg(
      case when status = 'completed' then output
      else json_build_object('error', json_build_object('code', error->'code', 'message', error->'message'))
      end order by item), '[]') end as outputs
  from run_step_items where run_id = n.run_id and step_id = n.step_id
) i on n.gathered
on conflict (run_id, step_id) do nothing
"""
_RECORDS = TypeAdapter(Sequence[StepRecord])
_DATA = TypeAdapter[Any](Any)


async def record(connection: Connection, batch_id: UUID, records: Sequence[StepRecord]) -> bool:
    """Write what steps did in runs that the batch still holds; a step recorded before keeps its record.

    All or nothing.

    Returns:
        Whether all of it was written.
    """
    items = [record for record in records if record.item is not None]
    steps = [record for record in records if record.item is None]
    written = 0
    async with connection.transaction() if items and steps else contextlib.nullcontext():
        if items:
            written += (await connection.execute(_RECORD_ITEMS, (_written(items), batch_id))).rowcount
        if steps:
            written += (await connection.execute(_RECORD, (_written(steps), batch_id))).rowcount
    return written == len(records)


def _written(records: Sequence[StepRecord]) -> str:
    return _RECORDS.dump_json([_with_data_as_text(one) for one in records], exclude_none=True).decode()


def _with_data_as_text(record: StepRecord) -> StepRecord:
    """Data may hold a NUL: a column of type json keeps it, but the functions that take JSON apart fail."""
    given = {"input": record.input, "output": record.output}
    data = {name: _DATA.dump_json(value).decode() for name, value in given.items() if value is not None}
    return record.model_copy(update=data)


# The output of a run is that of its last completed step in list order.
_END = """
update runs r set status = n.status, error = n.error, completed_at = now(), progressed_at = now(),
  output = (select s.output from run_steps s where s.run_id = r.id and s.status = 'completed'
            and n.status = 'completed' order by s.position desc limit 1)
from json_to_recordset(%s::json) as n (run_id uuid, status text, error json)
where r.id = n.run_id and r.batch_id = %s and r.completed_at is null
returning r.id
"""
_ENDINGS = TypeAdapter(Sequence[Ending])


async def end(connection: Connection, batch_id: UUID, endings: Sequence[Ending]) -> set[UUID]:
    """End runs, first writer wins: returns those that this call has ended."""
    text = _ENDINGS.dump_json(endings, exclude_none=True).decode()
    cursor = await connection.execute(_END, (text, batch_id))
    return {row["id"] for row in await cursor.fetchall()}


_STALE = """
with silent as (
  select batch_id, progressed_at from runs
  where status = 'running' and progressed_at < now() - make_interval(secs => %(stale)s)
  union all
  select batch_id, progressed_at from runs
  where status = 'waiting' and wake_at < now() - make_interval(secs => %(stale)s)
    and progressed_at < now() - make_interval(secs => %(stale)s)
), longest as (
  select batch_id from silent group by batch_id order by min(progressed_at) limit %(limit)s
), held as (
  select r.id from runs r join longest using (batch_id) where r.status in ('running', 'waiting')
  order by r.id for update of r skip locked
), stamped as (
  update runs r set progressed_at = now() from held where r.id = held.id
  returning r.batch_id, r.lane_id, r.trigger
)
select s.batch_id, l.account_id, l.automation_id, l.version, l.priority,
  case when min(s.trigger) = max(s.trigger) then min(s.trigger) else 'mixed' end as trigger
from stamped s join lanes l on l.id = s.lane_id group by s.batch_id, l.id
"""


async def stale(connection: Connection, limit: int = 16) -> list[Batch]:
    """The ids of batches to probe: with no progress for `STALE_SECONDS` at work, or overdue to wake.

    Those without progress for longest come first. The stamp on their runs keeps others away for as long
    again; two processes that ask in the same moment may find the same, which does no harm.
    """
    cursor = await connection.execute(_STALE, {"stale": STALE_SECONDS, "limit": limit})
    return [Batch.model_validate(row) for row in await cursor.fetchall()]


async def requeue(connection: Connection, batch_id: UUID) -> int:
    """Put the runs of a batch that is over, and did not end them, back in their lane. Returns how many."""
    cursor = await connection.execute(
        "update runs set status = 'queued', batch_id = null, attempts = greatest(attempts, 1)"
        " where batch_id = %s and status in ('running', 'waiting')",
        (batch_id,),
    )
    return cursor.rowcount


async def take_apart(connection: Connection, batch_id: UUID) -> tuple[int, list[UUID]]:
    """Give back the runs of a batch whose tasks keep failing: each goes alone from now on.

    One that fails so for the third time ends as `engine_error`.

    Returns:
        How many were given back, and those that have ended.
    """
    cursor = await connection.execute(
        "update runs set engine_failures = engine_failures + 1,"
        " status = case when engine_failures + 1 < %(most)s then 'queued' else 'failed' end,"
        " batch_id = case when engine_failures + 1 < %(most)s then null else batch_id end,"
        " completed_at = case when engine_failures + 1 < %(most)s then null else now() end,"
        " error = case when engine_failures + 1 < %(most)s then null else %(error)s::json end,"
        " attempts = greatest(attempts, 1)"
        " where batch_id = %(batch)s and status in ('running', 'waiting') returning id, status",
        {
            "batch": batch_id,
            "most": MAX_ENGINE_FAILURES,
            "error": Json({"code": "engine_error", "message": "The engine could not go on with this run."}),
        },
    )
    rows = await cursor.fetchall()
    ended = [row["id"] for row in rows if row["status"] == "failed"]
    return len(rows) - len(ended), ended


async def park(connection: Connection, parking: Parking) -> list[UUID]:
    """Hand runs over to the batch that wakes them. Returns those that stay, since somebody cancels them."""
    progress = {run.run_id: Json(run.progress.model_dump(mode="json")) for run in parking.runs}
    cursor = await connection.execute(
        "update runs r set status = 'waiting', batch_id = %s, wake_at = %s, progress = n.progress,"
        " progressed_at = now() from unnest(%s::uuid[], %s::json[]) as n (id, progress)"
        " where r.id = n.id and r.batch_id = %s and r.completed_at is null and r.cancel_requested_at is null",
        (parking.next_id, parking.wake_at, list(progress), list(progress.values()), parking.batch.batch_id),
    )
    if cursor.rowcount == len(progress):
        return []
    return list(await held(connection, parking.batch.batch_id, list(progress)))


async def wake(connection: Connection, batch: Batch) -> Batch | None:
    """Take up the runs that this batch holds, waiting or at work; None if it holds none.

    The progress that the batch brings is written down: those that do not fit go on with it in another.
    """
    if batch.progress:
        progress = {run_id: Json(one.model_dump(mode="json")) for run_id, one in batch.progress.items()}
        await connection.execute(
            "update runs r set progress = n.progress from unnest(%s::uuid[], %s::json[]) as n (id, progress)"
            " where r.id = n.id and r.batch_id = %s and r.completed_at is null",
            (list(progress), list(progress.values()), batch.batch_id),
        )
    await connection.execute(
        "update runs set status = 'running', progressed_at = now()"
        " where batch_id = %s and status = 'waiting'",
        (batch.batch_id,),
    )
    return await _held_batch(connection, batch.batch_id)


async def to_cancel(connection: Connection, limit: int = 100) -> dict[UUID, list[UUID]]:
    """Runs at work, by batch, whose cancel is five seconds old: its signal may be lost."""
    cursor = await connection.execute(
        "update runs set cancel_requested_at = now() where id in (select id from runs"
        " where cancel_requested_at < now() - interval '5 seconds' and completed_at is null"
        " and status = 'running' limit %s for update skip locked) returning batch_id, id",
        (limit,),
    )
    batches: dict[UUID, list[UUID]] = {}
    for row in await cursor.fetchall():
        batches.setdefault(row["batch_id"], []).append(row["id"])
    return batches
