"""What goes: monitors that were deleted, runs as old as they are kept, what nothing reads any more."""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.monitors import completion, monitors

_AT_ONCE = 5_000


async def delete(connection: Connection, actor: Actor, monitor_id: UUID) -> None:
    """Delete a monitor with all that belongs to it; call it in a transaction, and notify as `create`.

    From now on nobody sees it. What it has left is deleted by `purge_deleted`, however much that is.

    Raises:
        NotFound: unknown, or another account's.
    """
    row = (await monitors.lock(connection, actor.account_id, monitor_id)).row
    if row["run_id"] is not None:
        await completion.cancel(connection, actor.account_id, monitor_id, row["run_id"])
    await connection.execute(
        "update monitors set deleted_at = now(), next_run_at = null where id = %s", (monitor_id,)
    )
    await audit.record(connection, actor, "monitor.deleted", Target("monitor", monitor_id, row["name"]))


# In the order of their keys, so that two who do this at the same time do not wait for each other crosswise.
_LEFT: tuple[LiteralString, ...] = (
    "delete from monitor_results where (run_id, position) in (select run_id, position from monitor_results"
    " where monitor_id = %(monitor_id)s order by run_id, position limit %(limit)s for update skip locked)",
    "delete from monitor_snapshots where (monitor_id, target, run_id) in (select monitor_id, target, run_id"
    " from monitor_snapshots where monitor_id = %(monitor_id)s order by target, run_id limit %(limit)s"
    " for update skip locked)",
    "delete from monitor_baselines where monitor_id = %(monitor_id)s and target in (select target"
    " from monitor_baselines where monitor_id = %(monitor_id)s order by target limit %(limit)s"
    " for update skip locked)",
    "delete from monitor_targets where monitor_id = %(monitor_id)s and id in (select id"
    " from monitor_targets where monitor_id = %(monitor_id)s order by id limit %(limit)s"
    " for update skip locked)",
)

# What another worker is at was passed over, and is here still if that worker fails.
_MONITOR: LiteralString = """
delete from monitors where id = %(monitor_id)s and deleted_at is not null
  and not exists (select from monitor_results where monitor_id = %(monitor_id)s)
  and not exists (select from monitor_snapshots where monitor_id = %(monitor_id)s)
  and not exists (select from monitor_baselines where monitor_id = %(monitor_id)s)
"""


async def purge_deleted(connection: Connection, monitor_id: UUID) -> None:
    """Delete what a deleted monitor has left, and itself when nothing is; some at a time, each committed."""
    for statement in _LEFT:
        deleted = _AT_ONCE
        while deleted == _AT_ONCE:
            cursor = await connection.execute(statement, {"monitor_id": monitor_id, "limit": _AT_ONCE})
            deleted = cursor.rowcount
    await connection.execute(_MONITOR, {"monitor_id": monitor_id})


_OLD_RESULTS: LiteralString = """
with gone as (
  delete from monitor_results where (run_id, position) in (
    select run_id, position from monitor_results where run_id = %(run_id)s limit %(limit)s
    for update skip locked
  ) returning has_changes
), counted as (
  select count(*) as results, count(*) filter (where has_changes) as changed from gone
)
update monitors m set results = m.results - c.results, changed = m.changed - c.changed
from counted c where m.id = %(monitor_id)s and c.results > 0 returning c.results
"""
_OLD_RUNS: LiteralString = """
select r.id, r.monitor_id from monitor_runs r join monitors m on m.id = r.monitor_id
where r.completed_at < now() - make_interval(days => coalesce(m.retention_days, %(kept_days)s))
order by r.id limit %(limit)s
"""
# The answer of a run is the newest that is not newer: one that is older than all runs and not the newest
# before the first of them is that of none.
_OLD_SNAPSHOTS: LiteralString = """
delete from monitor_snapshots where (monitor_id, target, run_id) in (
  select s.monitor_id, s.target, s.run_id from monitor_snapshots s
  where s.monitor_id = %(monitor_id)s and exists (
    select from monitor_snapshots n where n.monitor_id = s.monitor_id and n.target = s.target
      and n.run_id > s.run_id and n.run_id <= (
        coalesce((select r.id from monitor_runs r where r.monitor_id = %(monitor_id)s order by r.id limit 1),
          n.run_id)))
  limit %(limit)s for update of s skip locked)
"""
_LONE_SNAPSHOTS: LiteralString = """
delete from monitor_snapshots where (monitor_id, target, run_id) in (
  select s.monitor_id, s.target, s.run_id from monitor_snapshots s where s.monitor_id = %(monitor_id)s
    and not exists (select from monitor_baselines b where b.monitor_id = s.monitor_id and b.target = s.target)
    and not exists (select from monitor_results r where r.monitor_id = s.monitor_id and r.target = s.target)
  limit %(limit)s for update of s skip locked)
"""
# A target that has left its list for as long as results are kept is forgotten, so that it may come anew.
_OLD_BASELINES: LiteralString = """
delete from monitor_baselines where (monitor_id, target) in (
  select b.monitor_id, b.target from monitor_baselines b join monitors m on m.id = b.monitor_id
  where b.updated_at < now() - make_interval(days => coalesce(m.retention_days, %(kept_days)s))
    and not exists (select from monitor_targets t where t.monitor_id = m.id and t.target = b.target
      and m.list_id is null)
    and not exists (select from list_targets t where t.list_id = m.list_id and t.target = b.target)
  limit %(limit)s for update of b skip locked)
returning monitor_id
"""


async def purge_old(connection: Connection, kept_days: int) -> int:
    """Delete the runs that are older than they are kept, and what only they needed.

    Args:
        connection: any; each statement commits by itself.
        kept_days: for monitors that say nothing else.

    Returns:
        How many runs there were.
    """
    purged, seen = 0, set[UUID]()
    while old := await _old_runs(connection, kept_days):
        for run_id, monitor_id in old:
            await _purge_run(connection, run_id, monitor_id)
            seen.add(monitor_id)
        purged += len(old)
    while left := await _forget_old(connection, kept_days):
        seen |= left
    for monitor_id in seen:
        for statement in (_OLD_SNAPSHOTS, _LONE_SNAPSHOTS):
            await _repeat(connection, statement, {"monitor_id": monitor_id})
    return purged


async def _old_runs(connection: Connection, kept_days: int) -> list[tuple[UUID, UUID]]:
    cursor = await connection.execute(_OLD_RUNS, {"kept_days": kept_days, "limit": 100})
    return [(row["id"], row["monitor_id"]) for row in await cursor.fetchall()]


async def _forget_old(connection: Connection, kept_days: int) -> set[UUID]:
    """Forget some targets that nobody watches any more; give their monitors."""
    cursor = await connection.execute(_OLD_BASELINES, {"kept_days": kept_days, "limit": _AT_ONCE})
    return {row["monitor_id"] for row in await cursor.fetchall()}


async def _purge_run(connection: Connection, run_id: UUID, monitor_id: UUID) -> None:
    await _repeat(connection, _OLD_RESULTS, {"run_id": run_id, "monitor_id": monitor_id})
    await connection.execute(
        "with gone as (delete from monitor_runs where id = %s and completed_at is not null returning 1)"
        " update monitors set runs = runs - 1 where id = %s and exists (select from gone)",
        (run_id, monitor_id),
    )


async def _repeat(connection: Connection, statement: LiteralString, values: dict[str, object]) -> None:
    while True:
        cursor = await connection.execute(statement, {**values, "limit": _AT_ONCE})
        if not cursor.rowcount:
            return
