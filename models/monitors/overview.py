"""All monitors of an account together: their results, their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple, cast
from uuid import UUID

from pydantic import Field as Described

from database import Connection
from models.lists.lists import TargetType
from models.monitors.results import ANSWERS, FIELDS, Result
from models.views import View

# The number of runs that are read at once: it grows towards old results, but up to a limit.
_FIRST_RUNS, _MOST_RUNS = 100, 5_000


class MonitoredTarget(View):
    """A target of a monitor."""

    monitor_id: UUID = Described(description="The monitor.")
    monitor_name: str = Described(description="What it is called.")
    type: TargetType = Described(description="What its targets are.")
    target: str = Described(description="The target.")


@dataclass(frozen=True)
class ResultFilter:
    """The wanted results of an account.

    Attributes:
        type: only of monitors of this type.
        monitor_id: only of this monitor.
        changes_only: leave out results without changes.
        unseen: leave out results without changes, and changes that were marked as seen.
    """

    type: TargetType | None = None
    monitor_id: UUID | None = None
    changes_only: bool = False
    unseen: bool = False


class _Part(NamedTuple):
    """The entries of a page from one of many parts: `take` entries after `skip`."""

    source: UUID
    skip: int
    take: int


def _parts(counted: Sequence[tuple[UUID, int]], offset: int, limit: int) -> list[_Part]:
    """Return the parts that a page covers if their entries form one sequence."""
    parts: list[_Part] = []
    for source, count in counted:
        skip = min(offset, count)
        take = min(limit, count - skip)
        if take:
            parts.append(_Part(source, skip, take))
        offset, limit = offset - skip, limit - take
    return parts


def _columns(parts: Sequence[_Part]) -> dict[str, Any]:
    return {
        "sources": [part.source for part in parts],
        "skips": [part.skip for part in parts],
        "takes": [part.take for part in parts],
    }


_TOTAL: LiteralString = """
select coalesce(sum({} + coalesce(r.{}, 0)), 0)::bigint as total
from monitors m left join monitor_runs r on r.id = m.run_id
where m.account_id = %(account_id)s and m.deleted_at is null
"""
_COUNTED: LiteralString = """
select r.id, r.{0} as found from monitor_runs r join monitors m on m.id = r.monitor_id
where r.account_id = %(account_id)s and m.deleted_at is null and r.id < %(before)s and r.{0} > 0
"""
# Added only if needed: a condition that may be null misleads the planner.
_OF_TYPE: LiteralString = " and m.monitor_type = %(type)s"
_OF_MONITOR: LiteralString = " and m.id = %(monitor_id)s"
_UNSEEN: LiteralString = " and (m.seen_run_id is null or r.id > m.seen_run_id)"
_RESULTS: LiteralString = (
    "select " + FIELDS + ", e.monitor_id, m.name as monitor_name, m.monitor_type, e.completed_at"
    " from unnest(%(sources)s::uuid[], %(skips)s::int[], %(takes)s::int[]) as p (run_id, skip, take)"
    " join monitor_runs e on e.id = p.run_id join monitors m on m.id = e.monitor_id"
    " cross join lateral (select * from monitor_results where run_id = p.run_id{}"
    " order by position limit p.take offset p.skip) r " + ANSWERS + " order by r.run_id desc, r.position"
)


async def list_results(
    connection: Connection, account_id: UUID, wanted: ResultFilter, *, limit: int, offset: int
) -> tuple[list[Mapping[str, Any]], int]:
    """Return results of the account, those of the newest run first, and their total number.

    Results before the page are not read: the runs store how many results they have.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner.
        wanted: the filter.
        limit: the highest number of results.
        offset: the number of results to skip.

    Returns:
        The fields of `MonitoringResultView`, for orjson; and the total.
    """
    values = {"account_id": account_id, "type": wanted.type, "monitor_id": wanted.monitor_id}
    changes_only = wanted.changes_only or wanted.unseen
    kept: LiteralString = "m.changed" if changes_only else "m.results"
    kept = "greatest(0, m.changed - m.seen_changed)" if wanted.unseen else kept
    found: LiteralString = "changes_detected" if changes_only else "processed_records"
    of: LiteralString = "" if wanted.type is None else _OF_TYPE
    of += "" if wanted.monitor_id is None else _OF_MONITOR
    cursor = await connection.execute(_TOTAL.format(kept, found) + of, values)
    row = await cursor.fetchone()
    total = row["total"] if row else 0
    newer: LiteralString = _UNSEEN if wanted.unseen else ""
    runs = _COUNTED.format(found) + of + newer + " order by r.id desc limit %(limit)s"
    enough = min(offset + limit, total) if offset < total else 0
    parts = _parts(await _count_runs(connection, runs, values, enough), offset, limit)
    changed: LiteralString = " and has_changes" if changes_only else ""
    cursor = await connection.execute(_RESULTS.format(changed), _columns(parts))
    return [_show_row(one) for one in await cursor.fetchall()], total


async def _count_runs(
    connection: Connection, runs: LiteralString, wanted: Mapping[str, Any], enough: int
) -> list[tuple[UUID, int]]:
    """Count the results of the newest runs, until together they are enough."""
    counted: list[tuple[UUID, int]] = []
    before, limit = UUID(int=2**128 - 1), _FIRST_RUNS
    while enough > 0:
        cursor = await connection.execute(runs, {**wanted, "before": before, "limit": limit})
        rows = await cursor.fetchall()
        counted += [(row["id"], row["found"]) for row in rows]
        enough -= sum(row["found"] for row in rows)
        if len(rows) < limit:
            break
        before, limit = rows[-1]["id"], min(limit * 10, _MOST_RUNS)
    return counted


def _show_row(row: dict[str, Any]) -> Mapping[str, Any]:
    of_run = {name: row.pop(name) for name in ("monitor_id", "monitor_name", "monitor_type", "completed_at")}
    return {"run_id": row["run_id"], **of_run, **Result(**row).to_view()}


_MONITORS: LiteralString = """
select m.id, coalesce(m.list_id, m.id) as source, m.name, m.monitor_type as type,
  case when m.list_id is null then m.target_count else coalesce(l.target_count, 0) end as targets
from monitors m left join lists l on l.id = m.list_id
where m.account_id = %(account_id)s and m.deleted_at is null
"""
_TARGETS: LiteralString = """
select p.number, t.target
from unnest(%(sources)s::uuid[], %(skips)s::int[], %(takes)s::int[])
  with ordinality as p (source, skip, take, number)
cross join lateral (
  select id, target from monitor_targets where monitor_id = p.source
  union all select id, target from list_targets where list_id = p.source
  order by id limit p.take offset p.skip
) t
order by p.number, t.id
"""


async def list_targets(
    connection: Connection, account_id: UUID, *, type: TargetType | None, limit: int, offset: int
) -> tuple[list[MonitoredTarget], int]:
    """Return targets of the account's monitors, and their total number.

    The newest monitor's targets come first, each in the order of adding. A target of several monitors appears
    several times.

    Args:
        connection: inside or outside a transaction.
        account_id: the owner.
        type: only of monitors of this type.
        limit: the highest number of targets.
        offset: the number of targets to skip.
    """
    of_type: LiteralString = "" if type is None else _OF_TYPE
    cursor = await connection.execute(
        _MONITORS + of_type + " order by m.id desc", {"account_id": account_id, "type": type}
    )
    monitors = await cursor.fetchall()
    total = sum(one["targets"] for one in monitors)
    parts = _parts([(one["id"], one["targets"]) for one in monitors], offset, limit)
    by_id = {one["id"]: one for one in monitors}
    read = [_Part(by_id[part.source]["source"], part.skip, part.take) for part in parts]
    cursor = await connection.execute(_TARGETS, _columns(read))
    found: list[MonitoredTarget] = []
    for row in await cursor.fetchall():
        one = by_id[parts[cast(int, row["number"]) - 1].source]
        found.append(
            MonitoredTarget(
                monitor_id=one["id"], monitor_name=one["name"], type=one["type"], target=row["target"]
            )
        )
    return found, total
