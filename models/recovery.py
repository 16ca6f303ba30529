"""What brings runs back whose executor, workflow or code has failed: nothing accepted is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from psycopg.types.json import Json

from database import Connection
from models.leases import SILENT_SECONDS, Lease

# A batch whose executor is silent has somebody who sees to it after so long, with time to spare for a beat.
_UNSEEN_SECONDS = 12
_START_SECONDS = 5
_FIRST_SECONDS, _LONGEST_SECONDS = 60, 3600
_PATIENCE = timedelta(hours=24)


@dataclass(frozen=True)
class BatchToStart:
    """What the workflow of a batch is started with.

    Attributes:
        runs: how many it had when it was claimed.
        trigger: what started these, `mixed` if not all by the same.
    """

    batch_id: UUID
    account_id: UUID
    automation_id: UUID
    version: int
    priority: int
    runs: int
    trigger: str


_FIND_UNSEEN: LiteralString = """
with unseen as (
  select id from batches where not parked
    and (executor is null or beat_at < clock_timestamp() - make_interval(secs => %(unseen)s))
  union
  select id from batches where started_at is null
), chosen as (
  select b.id from batches b join unseen using (id)
  where b.probed_at < clock_timestamp() - make_interval(secs => %(again)s)
  order by b.probed_at limit %(limit)s for no key update of b skip locked
)
update batches b set probed_at = clock_timestamp() from chosen c, lanes l
where b.id = c.id and l.id = b.lane_id
returning b.id as batch_id, b.account_id, l.automation_id, l.version, l.priority, b.runs, b.trigger
"""


async def find_unseen(connection: Connection, limit: int = 32) -> list[BatchToStart]:
    """Find batches that nobody may see to: not started for 5 s, without an executor, or without its beat.

    What is found is found again after 5 s at the earliest, by whomever.
    """
    cursor = await connection.execute(
        _FIND_UNSEEN, {"again": _START_SECONDS, "unseen": _UNSEEN_SECONDS, "limit": limit}
    )
    return [BatchToStart(**row) for row in await cursor.fetchall()]


async def find_unknown(connection: Connection, batch_ids: Collection[UUID]) -> set[UUID]:
    """Find those of these batches that are not in the record."""
    cursor = await connection.execute(
        "select id from unnest(%s::uuid[]) as asked (id)"
        " where not exists (select from batches b where b.id = asked.id)",
        (list(batch_ids),),
    )
    return {row["id"] for row in await cursor.fetchall()}


async def delete_empty(connection: Connection) -> int:
    """Delete the batches whose runs were all woken before their time; returns how many.

    Their workflows, which sleep until then, are unknown from now on.
    """
    cursor = await connection.execute(
        "delete from batches b where b.parked and not exists (select from run_work where batch_id = b.id)"
    )
    return cursor.rowcount


async def mark_started(connection: Connection, batch_id: UUID) -> None:
    """Note that Temporal has accepted the start of a batch's workflow."""
    await connection.execute("update batches set started_at = now() where id = %s", (batch_id,))


async def give_back(connection: Connection, batch_id: UUID) -> int:
    """Put the runs of a batch whose workflow is over back in their lane, unless an executor has them.

    Give it no open transaction.

    Returns:
        How many there were. Those that wait go back too: where they wait next, somebody has their timer.
    """
    async with connection.transaction():
        cursor = await connection.execute(
            "select executor from batches where id = %s"
            " and (executor is null or beat_at < clock_timestamp() - make_interval(secs => %s)) for update",
            (batch_id, SILENT_SECONDS),
        )
        if (batch := await cursor.fetchone()) is None:
            return 0
        if batch["executor"] is not None:
            await _count_takeovers(connection, Lease(batch_id, batch["executor"]))
        cursor = await connection.execute(
            "update run_work set status = 'queued', available_at = clock_timestamp(), batch_id = null,"
            " wake_at = null where batch_id = %s",
            (batch_id,),
        )
        await connection.execute("delete from batches where id = %s", (batch_id,))
    return cursor.rowcount


async def count_lost(connection: Connection, lease: Lease) -> int:
    """Note that the runs of a batch were under way when its executor was lost.

    Those to which it happened twice go back to their lane, to go alone: one of them may be to blame.

    Returns:
        How many went back.
    """
    await _count_takeovers(connection, lease)
    cursor = await connection.execute(
        "with mine as materialized (select id from batches where id = %s and executor = %s for key share),"
        " lost as (update run_work w set lost = w.lost + 1 from mine m"
        "  where w.batch_id = m.id and w.status = 'running' and w.lost < 1)"
        " update run_work w set lost = 2, status = 'queued', available_at = clock_timestamp(),"
        "  batch_id = null, wake_at = null from mine m"
        " where w.batch_id = m.id and w.status = 'running' and w.lost >= 1"
        "  and (select count(*) from run_work where batch_id = m.id and status = 'running') > 1",
        lease,
    )
    return cursor.rowcount


async def _count_takeovers(connection: Connection, lease: Lease) -> None:
    """Count for each run of a batch that was under way that its worker was lost, if the lease still holds."""
    cursor = await connection.execute(
        "select run_id from run_work where batch_id = %s and status = 'running'", (lease.batch_id,)
    )
    run_ids = sorted(row["run_id"] for row in await cursor.fetchall())
    await connection.execute(
        "with mine as materialized (select id from batches where id = %s and executor = %s for key share)"
        " update runs set takeovers = takeovers + 1, taken_over_at = now()"
        " where id = any(%s) and exists (select from mine)",
        (*lease, run_ids),
    )


# ---- setting aside what our code cannot take forward: another build may


def _after_another(setbacks: Mapping[str, Any] | None, build: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    before = setbacks or {"since": now, "times": 0, "builds": []}
    builds = sorted({*before["builds"], build})
    return {"since": before["since"], "times": before["times"] + 1, "builds": builds}


def _seconds_aside(setbacks: Mapping[str, Any]) -> float:
    return min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(20, setbacks["times"] - 1))


def _is_hopeless(setbacks: Mapping[str, Any]) -> bool:
    """Whether a day and two builds of the code could not do it."""
    since = datetime.fromisoformat(setbacks["since"])
    return len(setbacks["builds"]) > 1 and datetime.now(UTC) - since > _PATIENCE


async def set_aside(connection: Connection, lease: Lease, run_id: UUID, build: str) -> bool:
    """Put a run with which our code has failed back in its lane, for a minute, then longer and longer.

    Returns:
        Whether it is hopeless: a day and two builds have failed. It is still held then, to be ended.
    """
    cursor = await connection.execute(
        "select setbacks from run_work where run_id = %s and batch_id = %s", (run_id, lease.batch_id)
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    setbacks = _after_another(row["setbacks"], build)
    if _is_hopeless(setbacks):
        return True
    await connection.execute(
        "update run_work w set status = 'queued', batch_id = null, wake_at = null, setbacks = %s,"
        " available_at = clock_timestamp() + make_interval(secs => %s)"
        " from (select id from batches where id = %s and executor = %s for key share) b"
        " where w.run_id = %s and w.batch_id = b.id and w.status = 'running'",
        (Json(setbacks), _seconds_aside(setbacks), *lease, run_id),
    )
    return False


async def set_lane_aside(connection: Connection, lease: Lease, lane_id: int, build: str) -> None:
    """Put the runs of a batch back in their lane, and serve that no more for a while."""
    cursor = await connection.execute("select setbacks from lanes where id = %s", (lane_id,))
    row = await cursor.fetchone()
    if row is None:
        return
    setbacks = _after_another(row["setbacks"], build)
    async with connection.transaction():
        await connection.execute(
            "update lanes set setbacks = %s, aside_until = clock_timestamp() + make_interval(secs => %s)"
            " where id = %s",
            (Json(setbacks), _seconds_aside(setbacks), lane_id),
        )
        await connection.execute(
            "update run_work w set status = 'queued', batch_id = null, wake_at = null,"
            " available_at = clock_timestamp()"
            " from (select id from batches where id = %s and executor = %s for key share) b"
            " where w.batch_id = b.id and w.status = 'running'",
            lease,
        )


async def take_lane_back(connection: Connection, lane_id: int) -> None:
    """Forget that a lane was set aside: it can be served."""
    await connection.execute("update lanes set setbacks = null, aside_until = null where id = %s", (lane_id,))


async def count_lanes_aside(connection: Connection) -> int:
    """How many lanes are set aside, or have a run that is."""
    cursor = await connection.execute(
        "select count(*)::int as n from ("
        " select id from lanes where aside_until > now()"
        " union select lane_id from run_work where setbacks is not null) as aside"
    )
    row = await cursor.fetchone()
    return row["n"] if row else 0
