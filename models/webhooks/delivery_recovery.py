"""The recovery of deliveries whose workflow or worker has failed, and the size of the backlog."""

from __future__ import annotations

from uuid import UUID

from database import Connection
from models.webhooks.delivery_work import QUEUE
from models.work_queue import count_by_status

# Sweeps queue waiting deliveries this late: their batch may be busy, or have no worker.
_OVERDUE_SECONDS = 1


async def queue_overdue(connection: Connection, limit: int = 1000) -> int:
    """Queue deliveries that are a second overdue, because their batch did not; return their number."""
    cursor = await connection.execute(
        QUEUE + "status = 'waiting' and delivery_id = any(array(select delivery_id from delivery_work"
        " where status = 'waiting' and wake_at < statement_timestamp() - make_interval(secs => %s)"
        " order by wake_at limit %s for update skip locked))",
        (_OVERDUE_SECONDS, limit),
    )
    return cursor.rowcount


async def requeue_batch(connection: Connection, batch_id: UUID) -> int:
    """Delete a batch whose workflow has closed, and queue its remaining deliveries; return their number."""
    async with connection.transaction():
        await connection.execute("delete from delivery_batches where id = %s", (batch_id,))
        cursor = await connection.execute(QUEUE + "batch_id = %s and status = 'running'", (batch_id,))
    return cursor.rowcount


async def count_unfinished(connection: Connection) -> dict[str, int]:
    """Return the number of deliveries of the installation that have not ended, by status."""
    return await count_by_status(connection, "delivery_work", "queued", "running", "waiting")


async def find_queue_age(connection: Connection) -> float:
    """Return for how many seconds the delivery that has waited longest to be sent is queued; 0 for none.

    Those to an endpoint that fails, is paused, or has a rate limit, wait because of it, and do not count.
    """
    cursor = await connection.execute(
        "select coalesce(extract(epoch from clock_timestamp() - min(w.available_at)), 0)::float8 as seconds"
        " from delivery_work w join endpoints e on e.id = w.endpoint_id"
        " where w.status = 'queued' and e.is_active and e.strikes = 0 and e.rate_limit is null"
        " and (e.paused_until is null or e.paused_until < now())"
    )
    row = await cursor.fetchone()
    return row["seconds"] if row else 0.0


async def delete_empty_batches(connection: Connection) -> int:
    """Delete batches without deliveries that are an hour old; return their number."""
    cursor = await connection.execute(
        "delete from delivery_batches b where probed_at < now() - interval '1 hour'"
        " and not exists (select from delivery_work w where w.batch_id = b.id)"
    )
    return cursor.rowcount
