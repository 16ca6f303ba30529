"""Stuck runs: runs that should have advanced.

Sweeps repair each kind within seconds, so a count signals an error.
"""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from database import Connection
from models.runs.own_runs import UNTAKEN_SECONDS, WORKFLOW

# Sweeps need a moment; and they wait for Temporal's own timers first.
_MOMENT_SECONDS = 5


class StuckRuns(NamedTuple):
    """The numbers of stuck runs by kind, and of runs that wait for a place.

    Attributes:
        untaken: runs that were handed to workflows of their own but not taken up.
        overdue: runs that wait for a time that is over.
        held: runs that are held at a gate that has room.
        own_backlog: runs that need workflows of their own and wait for places: not stuck, if this shrinks.
    """

    untaken: int
    overdue: int
    held: int
    own_backlog: int


# Each part reads an index that has little more than the rows to count.
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


async def find_queue_age(connection: Connection) -> float:
    """Return for how many seconds the run that has waited longest for a worker is queued; 0 for none."""
    cursor = await connection.execute(
        "select greatest(0, extract(epoch from clock_timestamp() - min(available_at)))::float8 as seconds"
        " from run_work where status = 'queued' and not held"
    )
    row = await cursor.fetchone()
    return row["seconds"] if row else 0.0


async def count(connection: Connection) -> StuckRuns:
    """Count the stuck runs."""
    given = {"workflow": WORKFLOW, "untaken": UNTAKEN_SECONDS + _MOMENT_SECONDS, "moment": _MOMENT_SECONDS}
    cursor = await connection.execute(_COUNT, given)
    row = await cursor.fetchone()
    assert row is not None
    return StuckRuns(**row)
