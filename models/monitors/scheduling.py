"""When monitors are due, as far as others have to know: the Temporal Schedules, and the sweeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from database import Connection

# The Schedule of a monitor comes first; what it has missed, a sweep finds.
_OVERDUE_SECONDS = 30
# Any constant beside the hash of a monitor's id.
_SCHEDULING = 0x5C4ED


class Due(NamedTuple):
    """When a monitor is due next, and its account; never, while it is paused."""

    monitor_id: UUID
    account_id: UUID
    at: datetime | None


async def find_overdue(connection: Connection, limit: int = 100) -> list[UUID]:
    """Find monitors that were due half a minute ago, and for which nobody has come."""
    cursor = await connection.execute(
        "select id from monitors where next_run_at < clock_timestamp() - make_interval(secs => %s)"
        " order by next_run_at limit %s",
        (_OVERDUE_SECONDS, limit),
    )
    return [row["id"] for row in await cursor.fetchall()]


async def find_unscheduled(connection: Connection, limit: int = 50) -> list[UUID]:
    """Find monitors whose Schedule has not been told when they are due."""
    cursor = await connection.execute(
        "select id from monitors where scheduled_for is distinct from next_run_at and deleted_at is null"
        " order by id limit %s",
        (limit,),
    )
    return [row["id"] for row in await cursor.fetchall()]


async def try_to_lock(connection: Connection, monitor_id: UUID) -> bool:
    """Have the Schedule of a monitor for oneself until the transaction ends; say whether one has.

    The monitor's row is not locked: whoever changes it is not held up, and is found to have done so later.
    """
    cursor = await connection.execute(
        "select pg_try_advisory_xact_lock(%s, hashtext(%s)) as free", (_SCHEDULING, str(monitor_id))
    )
    row = await cursor.fetchone()
    return row is not None and row["free"]


async def lock_schedule(connection: Connection, monitor_id: UUID) -> Due | None:
    """Have the Schedule of a monitor for oneself until the transaction ends.

    Returns:
        When it is due now; None if another is at it, or if the monitor is gone.
    """
    if not await try_to_lock(connection, monitor_id):
        return None
    cursor = await connection.execute(
        "select id as monitor_id, account_id, next_run_at as at from monitors"
        " where id = %s and deleted_at is null",
        (monitor_id,),
    )
    found = await cursor.fetchone()
    return None if found is None else Due(**found)


async def mark_scheduled(connection: Connection, due: Due) -> None:
    """Note what the Schedule of a monitor was told."""
    await connection.execute("update monitors set scheduled_for = %s where id = %s", (due.at, due.monitor_id))


async def reconcile(connection: Connection, scheduled: Mapping[UUID, datetime | None]) -> Collection[UUID]:
    """Have those Schedules told again that say something else than their monitors.

    Args:
        connection: any.
        scheduled: monitor → when its Schedule starts it next; None if it does not.

    Returns:
        Those of monitors that are not there.
    """
    cursor = await connection.execute(
        "select id, deleted_at is null as is_there, next_run_at from monitors"
        " where deleted_at is null or id = any(%s)",
        (list(scheduled),),
    )
    rows = await cursor.fetchall()
    wrong = [row["id"] for row in rows if row["is_there"] and scheduled.get(row["id"]) != row["next_run_at"]]
    await connection.execute("update monitors set scheduled_for = null where id = any(%s)", (wrong,))
    return scheduled.keys() - {row["id"] for row in rows}
