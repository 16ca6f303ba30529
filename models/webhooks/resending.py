"""Resending of deliveries: a single one, or all that have failed in some period."""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString
from uuid import UUID

from database import Connection
from models.errors import Conflict, NotFound

MAX_RECOVERED = 10_000
"""The highest number of deliveries that are recovered at a time."""

# Locks are taken in the same order as elsewhere: endpoint, work, delivery. So the endpoint cannot be deleted
# meanwhile, and the result of an attempt under way is written either before or after.
_WAKE: LiteralString = """
with woken as (
  update delivery_work set status = 'queued', available_at = clock_timestamp(), batch_id = null,
    wake_at = null, manual = true
  where delivery_id = %(id)s and status = 'waiting' returning delivery_id
)
update deliveries set next_attempt_at = now() where id = any(array(select delivery_id from woken))
"""
_QUEUE: LiteralString = """
with queued as (
  insert into delivery_work (delivery_id, event_id, account_id, endpoint_id, status, available_at, attempts,
                             manual)
  select id, event_id, account_id, endpoint_id, 'queued', clock_timestamp(), attempts, true from deliveries
  where id = any(%(ids)s) order by id
  on conflict (delivery_id) do nothing returning delivery_id
)
update deliveries set status = 'pending', next_attempt_at = now()
where id = any(%(ids)s) and id in (select delivery_id from queued)
"""
# An id has the time of the insert; its transaction began a little earlier.
_FAILED: LiteralString = """
select id from deliveries
where endpoint_id = %(endpoint_id)s and account_id = %(account_id)s and status = 'failed'
  and event_type <> 'webhook.test'
  and created_at >= %(since)s and created_at < coalesce(%(until)s, 'infinity'::timestamptz)
  and id >= first_id(greatest(%(since)s, 'epoch'::timestamptz))
  and id < first_id(coalesce(%(until)s, now()) + interval '1 hour')
order by id limit %(limit)s for update
"""


async def resend(connection: Connection, account_id: UUID, delivery_id: UUID) -> None:
    """Queue a delivery now, in any state; call it in a transaction.

    A delivery that has ended begins its schedule anew; one that is queued or at work already stays unchanged.

    Raises:
        NotFound: the delivery is unknown, or another account's.
        Conflict: its endpoint is deleted or not active.
    """
    cursor = await connection.execute(
        "select endpoint_id from deliveries where id = %s and account_id = %s", (delivery_id, account_id)
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("delivery")
    if not await _hold_endpoint(connection, account_id, row["endpoint_id"]):
        raise Conflict("webhook_deleted", "The webhook of this delivery was deleted.")
    cursor = await connection.execute(
        "select from delivery_work where delivery_id = %s for update", (delivery_id,)
    )
    if cursor.rowcount:
        await connection.execute(_WAKE, {"id": delivery_id})
    else:
        await connection.execute("select from deliveries where id = %s for update", (delivery_id,))
        await connection.execute(_QUEUE, {"ids": [delivery_id]})


async def recover(
    connection: Connection, account_id: UUID, endpoint_id: UUID, since: datetime, until: datetime | None
) -> int:
    """Queue the failed deliveries of an endpoint, except tests, the oldest first; call it in a transaction.

    Args:
        connection: inside a transaction.
        account_id: the owner of the endpoint.
        endpoint_id: the endpoint.
        since: only deliveries that were created at this time or later.
        until: only deliveries that were created before this; None for no bound.

    Returns:
        The number of queued deliveries, at most 10,000.

    Raises:
        NotFound: the account has no such endpoint.
        Conflict: the endpoint is not active.
    """
    if not await _hold_endpoint(connection, account_id, endpoint_id):
        raise NotFound("webhook")
    wanted = {
        "account_id": account_id, "endpoint_id": endpoint_id, "since": since, "until": until,
        "limit": MAX_RECOVERED,
    }  # fmt: skip
    cursor = await connection.execute(_FAILED, wanted)
    cursor = await connection.execute(_QUEUE, {"ids": [row["id"] for row in await cursor.fetchall()]})
    return cursor.rowcount


async def _hold_endpoint(connection: Connection, account_id: UUID, endpoint_id: UUID) -> bool:
    """Check that an endpoint is active, and lock it until the transaction ends; False if it is gone."""
    cursor = await connection.execute(
        "select is_active from endpoints where id = %s and account_id = %s for key share",
        (endpoint_id, account_id),
    )
    row = await cursor.fetchone()
    if row is not None and not row["is_active"]:
        message = "The webhook is not active; set is_active to true first."
        raise Conflict("webhook_not_active", message)
    return row is not None
