"""The cleanup of monitors: deleted monitors, runs that are too old, and data that nothing reads any more."""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.monitors import completion, monitors

_AT_ONCE = 5_000


async def delete(connection: Connection, actor: Actor, monitor_id: UUID) -> None:
    """Delete a monitor; call it in a transaction, and notify as for `create`.

    From now on the monitor is hidden. `purge_deleted` deletes its rows later.

    Raises:
        NotFound: the monitor is unknown, or another account's.
    """
    row = (await monitors.lock(connection, actor.account_id, monitor_id)).row
    if row["run_id"] is not None:
        await completion.cancel(connection, actor.account_id, monitor_id, row["run_id"])
    await connection.execute(
        "update monitors set deleted_at = now(), next_run_at = null where id = %s", (monitor_id,)
    )
    await audit.record(connection, actor, "monitor.deleted", Target("monitor", monitor_id, row["name"]))


# In the order of their keys, so that two concurrent purges cannot deadlock.
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

# Rows that another worker has locked were skipped; they are still here if that worker fails.
_MONITOR: LiteralString = """
delete from monitors where id = %(monitor_id)s and deleted_at is not null
  and not exists (select from monitor_results where monitor_id = %(monitor_id)s)
  and not exists (select from monitor_snapshots where monitor_id = %(monitor_id)s)
  and not exists (select from monitor_baselines where monitor_id = %(monitor_id)s)
"""


async def purge_deleted(connection: Connection, monitor_id: UUID) -> None:
    """Delete the rows of a deleted monitor in batches, each committed, and then the monitor itself."""
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
update monitors m set results = m.results - c.results, changed = m.changed - c.changed,
  seen_changed = case when m.seen_run_id >= %(run_id)s then greatest(0, m.seen_changed - c.changed)
                      else m.seen_changed end
from counted c where m.id = %(monitor_id)s and c.results > 0 returning c.results
"""
_OLD_RUNS: LiteralString = """
select r.id, r.monitor_id from monitor_runs r join monitors m on m.id = r.monitor_id
where r.completed_at < now() - make_interval(days => coalesce(m.retention_days, %(kept_days)s))
order by r.id limit %(limit)s
"""
# The answer of a run is the newest snapshot that is not newer than the run. A snapshot that is older than all
# runs, and not the newest before the first of them, is the answer of no run.
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
# A target that left its list longer ago than results are kept is forgotten, so that it can start anew.
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
    """Delete the runs that are too old, and the data that only they needed.

    Args:
        connection: any; each statement commits by itself.
        kept_days: the retention of monitors that have none of their own.

    Returns:
        The number of deleted runs.
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
    """Delete some baselines of targets that are no longer watched; return their monitors."""
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
