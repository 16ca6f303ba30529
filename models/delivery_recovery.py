"""What brings deliveries back whose workflow or worker has failed, and what is known of the backlog."""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from database import Connection
from models.delivery_work import WAKE

# So late the sweeps queue what waits: its batch may have others at work for long, or nobody to see to it.
_OVERDUE_SECONDS = 1
_START_SECONDS, _UNSEEN_SECONDS = 5, 60


async def queue_overdue(connection: Connection, limit: int = 1000) -> int:
    """Queue deliveries that were due a second ago, and that their batch has not queued. Returns how many."""
    cursor = await connection.execute(
        WAKE + " and delivery_id = any(array(select delivery_id from delivery_work"
        " where status = 'waiting' and wake_at < clock_timestamp() - make_interval(secs => %s)"
        " order by wake_at limit %s for update skip locked))",
        (_OVERDUE_SECONDS, limit),
    )
    return cursor.rowcount


_FIND_UNSEEN: LiteralString = """
with unseen as (
  select id from delivery_batches
  where started_at is null and probed_at < clock_timestamp() - make_interval(secs => %(start)s)
  union
  select b.id from delivery_batches b
  where b.id = any(array(select distinct batch_id from delivery_work where status = 'running'))
    and b.probed_at < clock_timestamp() - make_interval(secs => %(unseen)s)
), chosen as (
  select b.id from delivery_batches b join unseen using (id)
  order by b.probed_at limit %(limit)s for no key update of b skip locked
)
update delivery_batches b set probed_at = clock_timestamp() from chosen c where b.id = c.id
returning b.id, b.deliveries
"""


async def find_unseen(connection: Connection, limit: int = 32) -> list[tuple[UUID, int]]:
    """Find batches to be probed: not started for 5 s, or with deliveries at work and not probed for 60 s.

    Returns:
        Each with the number of its deliveries. What is found is not found again for as long.
    """
    wanted = {"start": _START_SECONDS, "unseen": _UNSEEN_SECONDS, "limit": limit}
    cursor = await connection.execute(_FIND_UNSEEN, wanted)
    return [(row["id"], row["deliveries"]) for row in await cursor.fetchall()]


async def mark_started(connection: Connection, batch_id: UUID) -> None:
    """Note that Temporal has accepted the start of a batch's workflow."""
    await connection.execute(
        "update delivery_batches set started_at = now() where id = %s and started_at is null", (batch_id,)
    )


async def give_back(connection: Connection, batch_id: UUID) -> int:
    """Queue what is left of a batch whose workflow has closed; the batch is gone. Returns how many."""
    async with connection.transaction():
        await connection.execute("delete from delivery_batches where id = %s", (batch_id,))
        cursor = await connection.execute(
            "update delivery_work set status = 'queued', available_at = clock_timestamp(), batch_id = null,"
            " wake_at = null where batch_id = %s and status = 'running'",
            (batch_id,),
        )
    return cursor.rowcount


async def count_unfinished(connection: Connection) -> dict[str, int]:
    """How many deliveries of the installation have not ended, by status."""
    cursor = await connection.execute(
        "select s.status, count(w.delivery_id)::int as n"
        " from unnest(array['queued', 'running', 'waiting']) as s (status)"
        " left join delivery_work w using (status) group by s.status order by s.status"
    )
    return {row["status"]: row["n"] for row in await cursor.fetchall()}


async def delete_empty_batches(connection: Connection) -> int:
    """Delete batches of an hour ago that have no delivery left. Returns how many there were."""
    cursor = await connection.execute(
        "delete from delivery_batches b where probed_at < now() - interval '1 hour'"
        " and not exists (select from delivery_work w where w.batch_id = b.id)"
    )
    return cursor.rowcount
