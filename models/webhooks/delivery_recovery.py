"""What brings deliveries back whose workflow or worker has failed, and what is known of the backlog."""

from __future__ import annotations

from uuid import UUID

from database import Connection
from models.webhooks.delivery_work import QUEUE
from models.work_queue import count_by_status

# So late the sweeps queue what waits: its batch may have others at work for long, or nobody to see to it.
_OVERDUE_SECONDS = 1


async def queue_overdue(connection: Connection, limit: int = 1000) -> int:
    """Queue deliveries that were due a second ago, and that their batch has not queued. Returns how many."""
    cursor = await connection.execute(
        QUEUE + "status = 'waiting' and delivery_id = any(array(select delivery_id from delivery_work"
        " where status = 'waiting' and wake_at < statement_timestamp() - make_interval(secs => %s)"
        " order by wake_at limit %s for update skip locked))",
        (_OVERDUE_SECONDS, limit),
    )
    return cursor.rowcount


async def give_back(connection: Connection, batch_id: UUID) -> int:
    """Queue what is left of a batch whose workflow has closed; the batch is gone. Returns how many."""
    async with connection.transaction():
        await connection.execute("delete from delivery_batches where id = %s", (batch_id,))
        cursor = await connection.execute(QUEUE + "batch_id = %s and status = 'running'", (batch_id,))
    return cursor.rowcount


async def count_unfinished(connection: Connection) -> dict[str, int]:
    """Return how many deliveries of the installation have not ended, by status."""
    return await count_by_status(connection, "delivery_work", "queued", "running", "waiting")


async def delete_empty_batches(connection: Connection) -> int:
    """Delete batches of an hour ago that have no delivery left. Returns how many there were."""
    cursor = await connection.execute(
        "delete from delivery_batches b where probed_at < now() - interval '1 hour'"
        " and not exists (select from delivery_work w where w.batch_id = b.id)"
    )
    return cursor.rowcount
