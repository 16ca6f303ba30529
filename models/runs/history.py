"""History: runs, their steps and items, and events, in partitions of a week each.

The id of a run begins with its time, so its partition follows from the id. A partition holds the runs that
were accepted in its week. Their steps and items are in two other partitions of the same week, and all three
are dropped together. The same holds for events, their deliveries and delivery attempts. No foreign key points
to them or from them: the parent of a row may be deleted first.
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
"""Partitions are created this long in advance."""
_RUNS = ("runs", "run_steps", "run_step_items")
# These have no partitions: their keys must be unique, or found, in all weeks.
_BESIDE = ("run_dedupe_keys", "run_search_values")
_EVENTS = ("events", "deliveries", "delivery_attempts")
_PARTITION = re.compile(rf"({'|'.join(_RUNS + _EVENTS)})_(before|\d{{8}})")
_AT_ONCE = 1000


def is_partition(name: str) -> bool:
    """Return whether a table is a partition, which no code refers to by name."""
    return _PARTITION.fullmatch(name) is not None


async def make_partitions(connection: Connection) -> None:
    """Create the missing partitions of the coming weeks."""
    await connection.execute("select make_history_partitions(%s)", (AHEAD,))


async def stands_ready(connection: Connection, ahead: timedelta) -> bool:
    """Return whether there are partitions for this period from now on."""
    cursor = await connection.execute(
        "select count(distinct parent) = %s as ready from history_partitions"
        " where not detaching and upper_id > first_id(now() + %s)",
        (len(_RUNS + _EVENTS), ahead),
    )
    row = await cursor.fetchone()
    return row is not None and row["ready"]


class _Week(NamedTuple):
    """The partitions of a week: the suffix of their names, and the range of their ids."""

    suffix: str
    lower_id: UUID
    upper_id: UUID


async def drop_old(connection: Connection, kept: timedelta) -> int:
    """Drop history that is older than `kept`.

    A week is dropped as a whole. While it still contains a run that has not ended, or not long enough ago,
    its other runs are deleted one by one. A week of events stays while a delivery of it has not ended. The
    call may be interrupted anywhere: the next one continues.

    Args:
        connection: outside a transaction, without a short timeout: it waits for readers of a partition.
        kept: the time for which runs are kept after their end; they may stay a week longer.

    Returns:
        The number of dropped weeks.
    """
    await _finish_detaching(connection)
    for week in await _old_weeks(connection, "runs", kept):
        if await _is_needed(connection, week, kept):
            await _delete_ended(connection, week, kept)
        else:
            for table in _BESIDE:
                await _delete_beside(connection, table, week)
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


# A delivery is created a moment after its event, so it may belong to the following week.
_OF_WEEK: LiteralString = """ from delivery_work w where (
  w.delivery_id >= %(lower)s and w.delivery_id < %(upper)s
  or w.event_id >= %(lower)s and w.event_id < %(upper)s
) """


async def _has_deliveries(connection: Connection, week: _Week) -> bool:
    """Return whether a delivery of the week can still succeed; delete those to inactive endpoints."""
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
), found as (
  delete from run_search_values where run_id = any(array(select id from ended))
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


async def _delete_beside(connection: Connection, table: str, week: _Week) -> None:
    query = SQL(
        "delete from {0} where run_id in (select run_id from {0} where run_id >= %s and run_id < %s limit %s)"
    ).format(Identifier(table))
    deleted = 1
    while deleted:
        cursor = await connection.execute(query, (week.lower_id, week.upper_id, _AT_ONCE))
        deleted = cursor.rowcount


async def _detach(connection: Connection, tables: Sequence[str], week: _Week) -> None:
    """Detach a week's partitions, the first table's last: an interrupted call finds the week again by it."""
    cursor = await connection.execute(
        "select parent, name from history_partitions where name = any(%s) order by parent = %s",
        ([table + week.suffix for table in tables], tables[0]),
    )
    for row in await cursor.fetchall():
        # This blocks no reader or writer, but it cannot be part of a transaction.
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
