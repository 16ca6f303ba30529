"""Ending all runs of a workflow: there may be very many, so some at a time, each time in a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from database import Connection
from models.runs import CANCEL

FIRST = UUID(int=0)
"""Before all ids."""
_AT_ONCE = 1000


@dataclass(frozen=True)
class Cancelled:
    """What became of runs that were asked to end.

    Attributes:
        ended: at once.
        at_work: those that are to be signalled, by batch.
        last: where to go on; None when there are no more.
    """

    ended: list[UUID]
    at_work: dict[UUID, list[UUID]]
    last: UUID | None


async def cancel_some(
    connection: Connection, account_id: UUID, automation_id: UUID, after: UUID = FIRST
) -> Cancelled:
    """Ask up to 1,000 runs of a workflow to end, whose ids follow `after`, as `runs.cancel` asks one."""
    # Locked in the order of their ids: two of these that meet wait, and do not block each other.
    chosen: LiteralString = (
        "with chosen as (select id from runs where account_id = %s and automation_id = %s"
        " and completed_at is null and (status <> 'running' or cancel_requested_at is null)"
        " and id > %s order by id limit %s for no key update) "
    )
    cursor = await connection.execute(
        chosen + CANCEL + " from chosen where r.id = chosen.id returning r.id, r.status, r.batch_id",
        (account_id, automation_id, after, _AT_ONCE),
    )
    rows = await cursor.fetchall()
    cancelled = Cancelled(
        [row["id"] for row in rows if row["status"] != "running"],
        {},
        max(row["id"] for row in rows) if len(rows) == _AT_ONCE else None,
    )
    for row in rows:
        if row["status"] == "running":
            cancelled.at_work.setdefault(row["batch_id"], []).append(row["id"])
    return cancelled
