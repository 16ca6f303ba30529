"""What has been: runs, their steps and their items, in partitions of a week each.

A run is found by its id, and that begins with its time. So a partition holds the runs that were accepted in
its week, with their steps and items in two others of the same week, and all three are dropped as one; events
with their deliveries and the attempts at these likewise. No foreign key points to them or from them: what a
row belongs to may be gone before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from psycopg.sql import SQL, Identifier

from database import Connection

AHEAD = timedelta(days=30)
"""So far ahead partitions stand ready."""
_RUNS = ("runs", "run_steps", "run_step_items")
_EVENTS = ("events", "deliveries", "delivery_attempts")
_PARTITION = re.compile(rf"({'|'.join(_RUNS + _EVENTS)})_(before|\d{{8}})")
_AT_ONCE = 1000


def is_partition(name: str) -> bool:
    """Whether a table is a partition, which no code names."""
    return _PARTITION.fullmatch(name) is not None


async def make_partitions(connection: Connection) -> None:
    """Make the partitions of the weeks to come, where they are missing."""
    await connection.execute("select make_history_partitions(%s)", (AHEAD,))


async def stands_ready(connection: Connection, ahead: timedelta) -> bool:
    """Say whether there is a partition for what comes until then."""
    cursor = await connection.execute(
        "select count(distinct parent) = %s as ready from history_partitions"
        " where not detaching and upper_id > first_id(now() + %s)",
        (len(_RUNS + _EVENTS), ahead),
    )
    row = await cursor.fetchone()
    return row is not None and row["ready"]


class _Week(NamedTuple):
    """A week's partitions: their names without that of the table, and from which id up to which they go."""

    suffix: str
    lower_id: UUID
    upper_id: UUID


async def drop_old(connection: Connection, kept: timedelta) -> int:
    """Drop what ended longer ago than it is kept.

    A week is dropped whole. While a run of it has not ended, or not long enough ago, the others of that week
    are deleted one by one; with a delivery that has not ended, it stays. Safe to be broken off anywhere: the
    next call goes on.

    Args:
        connection: outside a transaction, with patience: who reads a partition now is waited for.
        kept: how long a run is kept after its end, at least; at most a week longer.

    Returns:
        How many weeks were dropped.
    """
    await _finish_detaching(connection)
    for week in await _old_weeks(connection, "runs", kept):
        if await _is_needed(connection, week, kept):
            await _delete_ended(connection, week, kept)
        else:
            await _delete_dedupe_keys(connection, week)
            await _detach(connection, _RUNS, week)
    for week in await _old_weeks(connection, "events", kept):
        if not await _has_deliveries(connection, week):
            await _detach(connection, _EVENTS, week)
    return await _drop_detached(connection)


async def _old_weeks(connection: Connection, table: str, kept: timedelta) -> list[_Week]:
    cursor = await connection.execute(
        "select name, upper_id from history_partitions where parent = %s and not detaching"
        " and upper_id <= first_id(now() - %s) order by upper_id",
        (table, kept),
    )
    weeks, lower_id = list[_Week](), UUID(int=0)
    for row in await cursor.fetchall():
        weeks.append(_Week(row["name"].removeprefix(table), lower_id, row["upper_id"]))
        lower_id = row["upper_id"]
    return weeks


# A delivery is made a moment after its event, and may be of the week after it.
_OF_WEEK: LiteralString = """ from delivery_work w where (
  w.delivery_id >= %(lower)s and w.delivery_id < %(upper)s
  or w.event_id >= %(lower)s and w.event_id < %(upper)s
) """


async def _has_deliveries(connection: Connection, week: _Week) -> bool:
    """Whether a delivery of the week can still be made; what no endpoint will take is forgotten with it."""
    of_week = {"lower": week.lower_id, "upper": week.upper_id}
    cursor = await connection.execute(
        "select 1" + _OF_WEEK + "and exists (select from endpoints e where e.id = w.endpoint_id"
        " and e.is_active) limit 1",
        of_week,
    )
    if await cursor.fetchone() is not None:
        return True
    await connection.execute("delete" + _OF_WEEK, of_week)
    return False


async def _finish_detaching(connection: Connection) -> None:
    cursor = await connection.execute("select parent, name from history_partitions where detaching")
    for row in await cursor.fetchall():
        await connection.execute(
            SQL("alter table {} detach partition {} finalize").format(
                Identifier(row["parent"]), Identifier(row["name"])
            )
        )


async def _is_needed(connection: Connection, week: _Week, kept: timedelta) -> bool:
    query = SQL("select 1 from {} where completed_at is null or completed_at >= now() - %s limit 1")
    cursor = await connection.execute(query.format(Identifier("runs" + week.suffix)), (kept,))
    return await cursor.fetchone() is not None


_DELETE_ENDED: LiteralString = """
with ended as materialized (
  select id from runs where id > %(after)s and id < %(upper)s and completed_at < now() - %(kept)s
  order by id limit %(limit)s
), items as (
  delete from run_step_items where run_id = any(array(select id from ended))
), steps as (
  delete from run_steps where run_id = any(array(select id from ended))
), keys as (
  delete from run_dedupe_keys where run_id = any(array(select id from ended))
)
delete from runs where id = any(array(select id from ended)) returning id
"""


async def _delete_ended(connection: Connection, week: _Week, kept: timedelta) -> None:
    after: UUID | None = week.lower_id
    while after is not None:
        wanted: dict[str, Any] = {
            "after": after, "upper": week.upper_id, "kept": kept, "limit": _AT_ONCE
        }  # fmt: skip
        cursor = await connection.execute(_DELETE_ENDED, wanted)
        after = max((row["id"] for row in await cursor.fetchall()), default=None)


async def _delete_dedupe_keys(connection: Connection, week: _Week) -> None:
    deleted = 1
    while deleted:
        cursor = await connection.execute(
            "delete from run_dedupe_keys where run_id in"
            " (select run_id from run_dedupe_keys where run_id >= %s and run_id < %s limit %s)",
            (week.lower_id, week.upper_id, _AT_ONCE),
        )
        deleted = cursor.rowcount


async def _detach(connection: Connection, tables: Sequence[str], week: _Week) -> None:
    """Detach a week's partitions, that of the first table last: by that it is found again."""
    cursor = await connection.execute(
        "select parent, name from history_partitions where name = any(%s) order by parent = %s",
        ([table + week.suffix for table in tables], tables[0]),
    )
    for row in await cursor.fetchall():
        # Nobody is locked out meanwhile; but it cannot be part of a transaction.
        await connection.execute(
            SQL("alter table {} detach partition {} concurrently").format(
                Identifier(row["parent"]), Identifier(row["name"])
            )
        )


async def _drop_detached(connection: Connection) -> int:
    cursor = await connection.execute(
        "select relname::text as name from pg_class c where relkind = 'r' and not relispartition"
        " and relnamespace = (select relnamespace from pg_class where oid = 'runs'::regclass)"
    )
    weeks = 0
    for row in await cursor.fetchall():
        if not is_partition(row["name"]):
            continue
        table = Identifier(row["name"])
        async with connection.transaction():
            weeks += row["name"].startswith((f"{_RUNS[0]}_", f"{_EVENTS[0]}_"))
            if row["name"].startswith(f"{_RUNS[0]}_"):
                await connection.execute(
                    SQL(
                        "insert into run_counts (account_id, automation_id, status, runs)"
                        " select account_id, automation_id, status, -count(*) from {}"
                        " group by account_id, automation_id, status"
                    ).format(table)
                )
            await connection.execute(SQL("drop table {}").format(table))
    return weeks
