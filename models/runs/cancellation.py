"""Cancellation from outside: the record changes at once, and carriers notice it later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString
from uuid import UUID

import metrics
from database import Connection
from models.errors import NotFound
from models.runs.runs import CANCELLED_CHANNEL, FINISHED_CHANNEL, QUEUED_CHANNEL, join_ids
from notifications import Notifier

FIRST = UUID(int=0)
"""The smallest id."""
_AT_ONCE = 1000

# Locked in the order of their ids, including parents: a run's id is greater than its parent's. An executor
# notices that they are gone at its next write. The ids are arrays: a join with them may lose a row for whose
# lock it has waited, because Postgres joins the new version of the row again, and with one of the ids alone.
_LOCK: tuple[LiteralString, LiteralString] = (
    "with chosen as materialized (select run_id, parent_run_id from run_work"
    " where account_id = %(account_id)s and ",
    ") select run_id, parent_run_id, run_id = any(array(select run_id from chosen)) as is_chosen"
    " from run_work where run_id = any(array(select run_id from chosen)"
    " || array(select parent_run_id from chosen)) order by run_id for update",
)


async def cancel(connection: Connection, account_id: UUID, run_id: UUID) -> list[UUID]:
    """Cancel a run, and the runs that it has begun as steps. A run that has ended stays unchanged.

    Returns:
        The runs that this call has ended, the given one first; none if it had ended before.

    Raises:
        NotFound: the run is unknown, or another account's.
    """
    wanted = {"account_id": account_id, "run_id": run_id}
    async with connection.transaction():
        ended, children = await _end_chosen(connection, "run_id = %(run_id)s", wanted)
        if ended:
            return ended + children
    cursor = await connection.execute(
        "select 1 from runs where account_id = %(account_id)s and id = %(run_id)s", wanted
    )
    if await cursor.fetchone() is None:
        raise NotFound("run")
    return []


async def _end_chosen(
    connection: Connection, chosen: LiteralString, wanted: Mapping[str, Any]
) -> tuple[list[UUID], list[UUID]]:
    """Cancel the runs that a condition selects, wake their parents, and cancel their children.

    Both returned lists are in order.
    """
    head, tail = _LOCK
    cursor = await connection.execute(head + chosen + tail, wanted)
    rows = [row for row in await cursor.fetchall() if row["is_chosen"]]
    ids = [row["run_id"] for row in rows]
    if not ids:
        return [], []
    cursor = await connection.execute("select gate from end_cancelled_2(%s)", (ids,))
    gates = [row["gate"] for row in await cursor.fetchall() if row["gate"]]
    if parents := [row["parent_run_id"] for row in rows if row["parent_run_id"] is not None]:
        await connection.execute("select wake_runs_2(%s)", (parents,))
    cursor = await connection.execute("select run_id, gate from cancel_children_2(%s)", (ids,))
    children = await cursor.fetchall()
    gates += [row["gate"] for row in children if row["gate"]]
    await connection.execute("select leave_gates_1(%s::uuid[])", (gates,))
    metrics.RUNS.add(len(ids) + len(children), "cancelled", "")
    return ids, [row["run_id"] for row in children]


async def cancel_these(
    connection: Connection, account_id: UUID, run_ids: Sequence[UUID]
) -> tuple[list[UUID], list[UUID]]:
    """Cancel these runs of the account, and the runs that they have begun as steps; skip those that ended.

    Returns:
        The given runs that this call has ended, and the others.
    """
    wanted = {"account_id": account_id, "run_ids": list(run_ids)}
    async with connection.transaction():
        return await _end_chosen(connection, "run_id = any(%(run_ids)s)", wanted)


async def cancel_some(
    connection: Connection,
    account_id: UUID,
    automation_id: UUID,
    after: UUID = FIRST,
    *,
    upload_id: UUID | None = None,
) -> tuple[list[UUID], UUID | None]:
    """Cancel up to 1,000 runs of a workflow, or of one upload to it, whose ids follow `after`.

    Returns:
        The runs that this call has ended, and the `after` of the next call; None at the end.
    """
    some: LiteralString = "automation_id = %(automation_id)s and run_id > %(after)s"
    some += "" if upload_id is None else " and upload_id = %(upload_id)s"
    wanted = {
        "account_id": account_id, "automation_id": automation_id, "after": after, "upload_id": upload_id,
        "limit": _AT_ONCE,
    }  # fmt: skip
    some += " order by run_id limit %(limit)s"
    async with connection.transaction():
        ended, children = await _end_chosen(connection, some, wanted)
    return ended + children, ended[-1] if len(ended) == _AT_ONCE else None


def notify_ends(notifier: Notifier, run_ids: Sequence[UUID]) -> None:
    """Notify carriers and clients of runs that were cancelled; call it after the commit."""
    for ids in join_ids(run_ids):
        notifier.notify(CANCELLED_CHANNEL, ids)
        notifier.notify(FINISHED_CHANNEL, ids)
    notifier.notify(QUEUED_CHANNEL)
