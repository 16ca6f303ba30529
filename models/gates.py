"""Gates: the limit on runs of a workflow that are under way, and their number now.

A run passes its gate when it is claimed, and counts there until it ends. A claim locks the gates of the runs
that it takes and skips gates that another transaction has locked. The end of a run locks its gate last. Runs
beyond the limit are held: they are in no queue until the end of another run, or the sweep, promotes them.
"""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from sqlalchemy import Column, ForeignKey, Integer
from sqlmodel import Field, SQLModel

from database import Connection

NONE = UUID(int=0)
"""The gate of a run whose workflow sets no limit."""
_AT_ONCE = 256
_MOST_PROMOTED = 1000


class Gate(SQLModel, table=True):
    """The gate of a workflow that limits its runs.

    Attributes:
        lim: the highest number of runs under way.
        begun: the number of runs that have begun and not ended, including runs that wait.
    """

    __tablename__ = "gates"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    workflow_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    lim: int
    begun: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))


# The account is part of the condition because an index on it exists.
_RUNS: LiteralString = (
    "account_id = (select account_id from automations where id = %(id)s) and automation_id = %(id)s"
)
_CHANGING: LiteralString = _RUNS + " and (gate <> %(gate)s or held)"
_COUNT: LiteralString = "(select count(*) from run_work where " + _RUNS + " and begun)"


async def set_limit(connection: Connection, automation_id: UUID, limit: int | None) -> None:
    """Set how many runs of a workflow may be under way; None for no limit. Run it inside a transaction.

    Runs of the workflow that wait in a queue are moved to the gate, or away from it.
    """
    wanted = {"id": automation_id, "limit": limit, "gate": NONE if limit is None else automation_id}
    cursor = await connection.execute("select lim from gates where workflow_id = %(id)s", wanted)
    before = await cursor.fetchone()
    if (before and before["lim"]) == limit:
        return
    # Lock runs before the gate, in the same order as the end of a run does: so there is no deadlock.
    await connection.execute(
        "select from run_work where " + _CHANGING + " order by run_id for update", wanted
    )
    if limit is None:
        await connection.execute("delete from gates where workflow_id = %(id)s", wanted)
    else:
        await connection.execute(
            "insert into gates (workflow_id, lim, begun) values (%(id)s, %(limit)s, " + _COUNT + ")"
            " on conflict (workflow_id) do update set lim = excluded.lim",
            wanted,
        )
    await connection.execute("update run_work set gate = %(gate)s, held = false where " + _CHANGING, wanted)


_FIND_HELD: LiteralString = """
with recursive held (gate) as (
  (select gate from run_work where held and gate > %(after)s order by gate limit 1)
  union all
  (select (select w.gate from run_work w where w.held and w.gate > held.gate order by w.gate limit 1)
   from held where held.gate is not null)
)
select h.gate, g.begun < g.lim or g.lim > (
    select count(*) from (
      select from run_work w where w.gate = h.gate and w.gate <> %(none)s and w.begun limit g.lim) w
  ) as has_room
from (select gate from held where gate is not null limit %(most)s) h
left join gates g on g.workflow_id = h.gate order by h.gate
"""
_RECOUNT: LiteralString = """
update gates set begun = (
  select count(*) from run_work w where w.gate = %(gate)s and w.gate <> %(none)s and w.begun)
where workflow_id = %(gate)s returning lim - begun as room
"""


async def promote(connection: Connection, after: UUID) -> tuple[int, UUID]:
    """Recount the gates that hold runs, and queue as many held runs as each has room for.

    The end of a run promotes one held run. This sweep covers room that appears otherwise, such as by a higher
    limit.

    Args:
        connection: outside a transaction.
        after: the last gate that the sweep before has visited; `NONE` to begin with the first.

    Returns:
        The number of runs that were queued, and the `after` of the next sweep.
    """
    cursor = await connection.execute(_FIND_HELD, {"after": after, "most": _AT_ONCE, "none": NONE})
    found, promoted = await cursor.fetchall(), 0
    for row in found:
        # Of very many gates nearly all are full: a full gate is neither locked nor written.
        if row["has_room"]:
            promoted += await _promote(connection, row["gate"])
    return promoted, found[-1]["gate"] if len(found) == _AT_ONCE else NONE


async def _promote(connection: Connection, gate: UUID) -> int:
    async with connection.transaction():
        cursor = await connection.execute(
            "select from gates where workflow_id = %s for update skip locked", (gate,)
        )
        if not cursor.rowcount:
            return 0
        # A separate statement, so that it sees all that claims and ends committed before the gate was locked.
        cursor = await connection.execute(_RECOUNT, {"gate": gate, "none": NONE})
        row = await cursor.fetchone()
        room = min(row["room"], _MOST_PROMOTED) if row else 0
        if room <= 0:
            return 0
        cursor = await connection.execute("select promote_held_2(%s) as runs", ([gate] * room,))
        row = await cursor.fetchone()
        return row["runs"] if row else 0
