"""Runs of monitors at work: claimed, their targets processed, the results recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import JSON, Column, DateTime, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.lists.lists import TargetType
from models.lookups.silence import NOT_PARTIAL
from models.schedules.calendars import Calendar
from models.work_queue import AccountQueue


class Claimed(NamedTuple):
    """A claimed run, whose workflow must be started."""

    run_id: UUID
    account_id: UUID
    monitor_id: UUID
    targets: int


RUNS = AccountQueue(
    name="monitor_runs",
    columns="id as run_id, account_id, monitor_id, total_records as targets",
    claimed=Claimed,
    lock=0x6D6F6E69746F72,
    waits="coalesce(resumes_at > clock_timestamp(), false)",
)
claim = RUNS.claim


class Baseline(SQLModel, table=True):
    """The stored knowledge about a target, for the next comparison.

    Attributes:
        content_hash: the hash of the sources' words.
        snapshot: in the form of `snapshots.dump`.
        unheard_since: the time since which a source over its limit has not been heard; None if all were.
    """

    __tablename__ = "monitor_baselines"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 70}},)

    monitor_id: UUID = Field(primary_key=True)
    target: str = Field(sa_column=Column(Text(collation="C"), primary_key=True))
    content_hash: bytes = Field(sa_type=LargeBinary)
    snapshot: Any = Field(sa_column=Column(JSON, nullable=False))
    updated_at: Any = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    unheard_since: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class StoredSnapshot(SQLModel, table=True):
    """An answer of a target, stored once: it holds for all later runs, until there is another one."""

    __tablename__ = "monitor_snapshots"  # pyright: ignore[reportAssignmentType]

    monitor_id: UUID = Field(primary_key=True)
    target: str = Field(sa_column=Column(Text(collation="C"), primary_key=True))
    run_id: UUID = Field(primary_key=True)
    data: Any = Field(sa_column=Column(JSON, nullable=False))


class StoredResult(SQLModel, table=True):
    """The result of a run for one target; its answer is the newest snapshot that is not newer than the run.

    Attributes:
        position: the target's position in the run, from 0.
        silent: `[{source, since, why}]`, the sources of tracked fields that were not heard; None if all were.
        first_heard: dotted field → its first findings; None if there are none.
    """

    __tablename__ = "monitor_results"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_monitor_results_target", "monitor_id", "target", "run_id"),
        Index("ix_monitor_results_changed", "run_id", "position", postgresql_where="has_changes"),
    )

    run_id: UUID = Field(primary_key=True)
    position: int = Field(primary_key=True)
    monitor_id: UUID
    target: str = Field(sa_column=Column(Text(collation="C"), nullable=False))
    has_changes: bool
    changes: Any = Field(sa_column=Column(JSON))
    details: Any = Field(sa_column=Column(JSON))
    error: Any = Field(sa_column=Column(JSON))
    silent: Any = Field(sa_column=Column(JSON))
    first_heard: Any = Field(sa_column=Column(JSON))


@dataclass(frozen=True)
class Chunk:
    """The targets of a chunk that have no result yet.

    Attributes:
        when: conditions on changes, in their stored form: those of the monitor, else those of its list.
        targets: each with its position in the run.
        period: the time between two runs of the monitor.
        created_at: when the monitor was created.
        before: when the run before ended; None if no earlier run has processed a target.
        started_at: when the run began.
        ends_in: seconds until targets stop waiting for their sources.
        heard_before: the sources that earlier runs of the monitor have heard.
    """

    run_id: UUID
    account_id: UUID
    monitor_id: UUID
    type: TargetType
    full_refresh: bool
    tracked_fields: Sequence[str]
    ignored_fields: Sequence[str]
    tolerance: dict[str, float]
    period: timedelta
    created_at: datetime
    before: datetime | None
    targets: Sequence[tuple[int, str]]
    when: Sequence[Mapping[str, Any]] = ()
    heard_before: Sequence[str] = ()
    started_at: datetime | None = None
    ends_in: float = 0.0


@dataclass(frozen=True)
class TargetResult:
    """The result of processing one target; texts are JSON.

    Attributes:
        changes, details: None if nothing has changed; a rotating set has only details.
        error: None if the lookup was answered.
        baseline, content_hash: None if they have not changed.
        data: None if the answer of the run before still holds.
        forgotten: whether its baseline must be deleted.
        heard: whether a source of a tracked field has answered; then a credit is charged, if any are held.
        silent: the sources of tracked fields that were not heard; None if all were.
        first_heard: first findings, apart from changes; None if there are none.
        unheard: whether a source over its limit was not heard: the next run begins with such targets.
        answered: the sources of tracked fields that have answered.
    """

    run_id: UUID
    position: int
    monitor_id: UUID
    target: str
    changes: str | None = None
    details: str | None = None
    error: str | None = None
    baseline: str | None = None
    content_hash: bytes | None = None
    data: str | None = None
    forgotten: bool = False
    heard: bool = False
    silent: str | None = None
    first_heard: str | None = None
    answered: Collection[str] = ()
    unheard: bool = False

    @property
    def size(self) -> int:
        """The approximate size in characters."""
        return sum(len(text or "") for text in (self.changes, self.details, self.baseline, self.data))


_OPEN: LiteralString = """
select r.id as run_id, r.account_id, r.monitor_id, r.monitor_type as type,
  m.change_detection = 'full_refresh' as full_refresh, m.tracked_fields, m.ignored_fields, m.tolerance,
  m.frequency, m.cron, m.timezone, m.created_at, c.targets,
  array(select s.source from monitor_sources s where s.monitor_id = m.id and s.heard_at is not null)
    as heard_before, r.started_at,
  extract(epoch from coalesce(r.ends_by, r.created_at + interval '1 day') - clock_timestamp())::float
    as ends_in,
  case when jsonb_array_length(m."when") > 0 then m."when" else coalesce(l."when", '[]') end as "when", (
    select p.completed_at from monitor_runs p
    where p.monitor_id = r.monitor_id and p.id < r.id and p.processed_records > 0 order by p.id desc limit 1
  ) as before
from monitor_runs r join monitors m on m.id = r.monitor_id left join lists l on l.id = m.list_id
left join monitor_run_chunks c on c.run_id = r.id and c.number = %(number)s
where r.id = %(run_id)s and r.status = 'running'
"""


async def open_chunk(connection: Connection, run_id: UUID, number: int, size: int) -> Chunk | None:
    """Return the targets of a chunk that have no result yet; None if the run has ended.

    Args:
        connection: inside or outside a transaction.
        run_id: the run's id.
        number: the chunk's number, from 0.
        size: the size of a full chunk.
    """
    cursor = await connection.execute(_OPEN, {"run_id": run_id, "number": number})
    row = await cursor.fetchone()
    if row is None:
        return None
    first = number * size
    targets: list[str] = row.pop("targets") or []
    cursor = await connection.execute(
        "select position from monitor_results where run_id = %s and position >= %s and position < %s",
        (run_id, first, first + len(targets)),
    )
    done = {one["position"] for one in await cursor.fetchall()}
    left = [(place, target) for place, target in enumerate(targets, first) if place not in done]
    calendar = Calendar(row.pop("frequency"), row.pop("cron"), row.pop("timezone"), row["created_at"])
    return Chunk(**row, period=calendar.period(), targets=left)


async def close_chunk(connection: Connection, run_id: UUID, number: int) -> None:
    """Delete a chunk, whose targets all have results."""
    await connection.execute(
        "delete from monitor_run_chunks where run_id = %s and number = %s", (run_id, number)
    )


async def mark_waiting(connection: Connection, run_id: UUID, seconds: float) -> None:
    """Record for how long the sources of a run make its remaining targets wait."""
    await connection.execute(
        "update monitor_runs r set resumes_at = case when r.resumes_at > clock_timestamp()"
        " then least(r.resumes_at, m.until) else m.until end"
        " from (select clock_timestamp() + make_interval(secs => %s) as until) m"
        " where id = %s and status = 'running'",
        (seconds, run_id),
    )


async def load_baselines(
    connection: Connection, wanted: Sequence[tuple[UUID, str]]
) -> list[tuple[bytes, bytes] | None]:
    """Return the hash and snapshot of each target, by its monitor and text; None for targets without any."""
    cursor = await connection.execute(
        "select monitor_id, target, content_hash, snapshot::text as snapshot from monitor_baselines"
        " where (monitor_id, target) in (select * from unnest(%s::uuid[], %s::text[]))",
        ([one for one, _ in wanted], [target for _, target in wanted]),
    )
    found = {
        (row["monitor_id"], row["target"]): (bytes(row["content_hash"]), row["snapshot"].encode())
        for row in await cursor.fetchall()
    }
    return [found.get(one) for one in wanted]


# Results of an earlier attempt stay, with everything that was recorded with them.
_RECORD: LiteralString = """
with given as materialized (
  select * from unnest(%(run_ids)s::uuid[], %(positions)s::integer[], %(monitor_ids)s::uuid[],
    %(targets)s::text[], %(changes)b::json[], %(details)b::json[], %(errors)b::json[],
    %(baselines)b::json[], %(hashes)s::bytea[], %(data)b::json[], %(forgotten)s::boolean[],
    %(heard)s::boolean[], %(silent)b::json[], %(first_heard)b::json[],
    %(unheard)s::boolean[])
  as given (run_id, position, monitor_id, target, changes, details, error, baseline, hash, data, forgotten,
    heard, silent, first_heard, unheard)
), recorded as (
  insert into monitor_results
    (run_id, position, monitor_id, target, has_changes, changes, details, error, silent,
    first_heard)
  select run_id, position, monitor_id, target, changes is not null, changes, details, error, silent,
    first_heard from given
  on conflict do nothing returning run_id, position
), new as materialized (
  select given.* from given join recorded using (run_id, position)
), known as (
  insert into monitor_baselines as b (monitor_id, target, content_hash, snapshot, updated_at, unheard_since)
  select new.monitor_id, target, hash, baseline, now(), case when unheard then now() end
  from new join monitors m on m.id = new.monitor_id
  where baseline is not null and (m.list_id is not null or exists (
    select from monitor_targets t where t.monitor_id = m.id and t.target = new.target))
  on conflict (monitor_id, target) do update set content_hash = excluded.content_hash,
    snapshot = excluded.snapshot, updated_at = excluded.updated_at,
    unheard_since = case when excluded.unheard_since is not null
      then coalesce(b.unheard_since, excluded.unheard_since) end
), unheard as (
  update monitor_baselines b set unheard_since = coalesce(b.unheard_since, now()) from new n
  where n.unheard and n.baseline is null and b.monitor_id = n.monitor_id and b.target = n.target
), kept as (
  insert into monitor_snapshots (monitor_id, target, run_id, data)
  select monitor_id, target, run_id, data from new where data is not null on conflict do nothing
), unknown as (
  delete from monitor_baselines b using new n
  where n.forgotten and b.monitor_id = n.monitor_id and b.target = n.target
), gone as (
  delete from monitor_snapshots s using new n
  where n.forgotten and s.monitor_id = n.monitor_id and s.target = n.target
), counted as (
  select run_id, count(*) as processed, count(error) as failed, count(changes) as changed,
    count(*) filter (where heard) as heard, count(*) filter (where exists (
      select from json_to_recordset(silent) as s (why text) where s.why <> all(%(whole)s))) as partial,
    count(first_heard) as first_heard from new group by run_id
)
update monitor_runs r set processed_records = processed_records + c.processed,
  failed_records = failed_records + c.failed, changes_detected = changes_detected + c.changed,
  heard_records = heard_records + case when exists (
    select from credit_holds h where h.reference = 'monitor-run/' || r.id::text) then c.heard else 0 end,
  targets_partial = targets_partial + c.partial,
  first_heard_records = first_heard_records + c.first_heard, resumes_at = null
from counted c where r.id = c.run_id
"""


async def record(connection: Connection, found: Sequence[TargetResult]) -> list[bool]:
    """Record results, each once; call it in a transaction.

    Returns:
        Whether the run of each result is still under way; results of other runs are not recorded.
    """
    cursor = await connection.execute(
        "select id from monitor_runs where id = any(%s) and status = 'running' order by id for no key update",
        (list({one.run_id for one in found}),),
    )
    running = {row["id"] for row in await cursor.fetchall()}
    # Two attempts at a chunk, one of which was thought lost, may record the same target.
    given = list({(one.run_id, one.position): one for one in found if one.run_id in running}.values())
    if given:
        columns: dict[str, Any] = {
            "run_ids": [one.run_id for one in given],
            "positions": [one.position for one in given],
            "monitor_ids": [one.monitor_id for one in given],
            "targets": [one.target for one in given],
            "changes": [one.changes for one in given],
            "details": [one.details for one in given],
            "errors": [one.error for one in given],
            "baselines": [one.baseline for one in given],
            "hashes": [one.content_hash for one in given],
            "data": [one.data for one in given],
            "forgotten": [one.forgotten for one in given],
            "heard": [one.heard for one in given],
            "silent": [one.silent for one in given],
            "whole": sorted(NOT_PARTIAL),
            "unheard": [one.unheard for one in given],
            "first_heard": [one.first_heard for one in given],
        }
        await connection.execute(_RECORD, columns)
        await _record_answered(connection, given)
    return [one.run_id in running for one in found]


async def _record_answered(connection: Connection, found: Sequence[TargetResult]) -> None:
    """Add the sources that have answered to those that their runs have heard."""
    for run_id in {one.run_id for one in found}:
        names = sorted({name for one in found if one.run_id == run_id for name in one.answered})
        await connection.execute(
            "update monitor_runs set sources_heard = array(select distinct name from"
            " unnest(sources_heard || %(names)s::text[]) name order by name)"
            " where id = %(run_id)s and not sources_heard @> %(names)s::text[]",
            {"run_id": run_id, "names": names},
        )
