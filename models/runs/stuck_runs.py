"""Runs that should have gone on, counted: sweeps mend each kind within seconds, or something is wrong."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from database import Connection
from models.runs.own_runs import UNTAKEN_SECONDS, WORKFLOW

# Sweeps need a moment; and a timer of Temporal's is waited for before they do it.
_MOMENT_SECONDS = 5


class StuckRuns(NamedTuple):
    """How many runs are stuck, by what they are stuck at; and how many wait for a place.

    Attributes:
        untaken: were handed over to workflows of their own, and nothing has taken them up.
        overdue: wait for a time that is over.
        held: are held at a gate that has room.
        own_backlog: are to have workflows of their own, and wait for places: not stuck, if that shrinks.
    """

    untaken: int
    overdue: int
    held: int
    own_backlog: int


# Each part reads an index that has little more than what is counted.
_COUNT: LiteralString = """
select
  (select count(*) from run_work
   where carrier = %(workflow)s
     and handed_at < statement_timestamp() - make_interval(secs => %(untaken)s))::int
    as untaken,
  (select count(*) from run_work
   where status = 'waiting' and wake_at < statement_timestamp() - make_interval(secs => %(moment)s))::int
    as overdue,
  (select coalesce(sum(h.runs), 0) from gates g cross join lateral (
     select count(*) as runs from (
       select from run_work w where w.held and w.gate = g.workflow_id
         and w.available_at < statement_timestamp() - make_interval(secs => %(moment)s)
       limit g.lim - g.begun) w) h
   where g.begun < g.lim)::int as held,
  (select count(*) from run_work where status = 'queued' and not held and own)::int as own_backlog
"""


async def count(connection: Connection) -> StuckRuns:
    """Count them."""
    given = {"workflow": WORKFLOW, "untaken": UNTAKEN_SECONDS + _MOMENT_SECONDS, "moment": _MOMENT_SECONDS}
    cursor = await connection.execute(_COUNT, given)
    row = await cursor.fetchone()
    assert row is not None
    return StuckRuns(**row)
