"""Ending runs from outside: at once, and in the record first, whoever has them at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString
from uuid import UUID

from database import Connection
from models.errors import NotFound

FIRST = UUID(int=0)
"""Before all ids."""
_AT_ONCE = 1000

# Locked in the order of their ids, parents before, as by whoever writes them. An executor finds them gone at
# its next write.
_LOCK_PARENTS: tuple[LiteralString, LiteralString] = (
    "select from run_work where run_id in (select parent_run_id from run_work"
    " where account_id = %(account_id)s and ",
    ") order by run_id for no key update",
)
_CANCEL: tuple[LiteralString, LiteralString] = (
    "with chosen as materialized (select run_id from run_work where account_id = %(account_id)s and ",
    " for update), gone as (delete from run_work w using chosen c where w.run_id = c.run_id"
    "  returning w.run_id, w.started_at, w.batch_id, w.progress, w.parent_run_id)"
    " update runs r set status = 'cancelled', completed_at = now(), started_at = g.started_at,"
    "  batch_id = g.batch_id, progress = g.progress from gone g where r.id = g.run_id"
    "  and r.id = any(array(select run_id from chosen)) returning r.id, g.parent_run_id",
)


async def cancel(connection: Connection, account_id: UUID, run_id: UUID) -> list[UUID]:
    """End a run, and those that it has begun as steps. One that has ended stays as it is.

    Returns:
        Those that this has ended, the run first; none if it had ended.

    Raises:
        NotFound: unknown, or another account's.
    """
    head, tail = _CANCEL
    wanted = {"account_id": account_id, "run_id": run_id}
    async with connection.transaction():
        await connection.execute(_LOCK_PARENTS[0] + "run_id = %(run_id)s" + _LOCK_PARENTS[1], wanted)
        cursor = await connection.execute(head + "run_id = %(run_id)s" + tail, wanted)
        rows = await cursor.fetchall()
        if rows:
            return [run_id, *await _tell_family(connection, rows)]
    cursor = await connection.execute(
        "select 1 from runs where account_id = %(account_id)s and id = %(run_id)s", wanted
    )
    if await cursor.fetchone() is None:
        raise NotFound("run")
    return []


async def _tell_family(connection: Connection, ended: Sequence[Mapping[str, Any]]) -> list[UUID]:
    """Wake the parents of runs that were cancelled, and cancel their children; returns these."""
    parents = [row["parent_run_id"] for row in ended if row["parent_run_id"] is not None]
    if parents:
        await connection.execute("select wake_runs(%s)", (parents,))
    cursor = await connection.execute("select cancel_children(%s) as id", ([row["id"] for row in ended],))
    return [row["id"] for row in await cursor.fetchall()]


async def cancel_some(
    connection: Connection,
    account_id: UUID,
    automation_id: UUID,
    after: UUID = FIRST,
    *,
    upload_id: UUID | None = None,
) -> tuple[list[UUID], UUID | None]:
    """End up to 1,000 runs of a workflow, or of one upload to it, whose ids follow `after`.

    Returns:
        Those that this has ended, and where to go on; None when there are no more.
    """
    head, tail = _CANCEL
    some: LiteralString = "automation_id = %(automation_id)s and run_id > %(after)s"
    some += "" if upload_id is None else " and upload_id = %(upload_id)s"
    wanted = {
        "account_id": account_id, "automation_id": automation_id, "after": after, "upload_id": upload_id,
        "limit": _AT_ONCE,
    }  # fmt: skip
    some += " order by run_id limit %(limit)s"
    async with connection.transaction():
        await connection.execute(_LOCK_PARENTS[0] + some + _LOCK_PARENTS[1], wanted)
        cursor = await connection.execute(head + some + tail, wanted)
        rows = await cursor.fetchall()
        children = await _tell_family(connection, rows)
    ended = sorted([row["id"] for row in rows])
    return ended + children, ended[-1] if len(ended) == _AT_ONCE else None
