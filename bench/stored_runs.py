"""Finished runs, stored by SQL: each is a copy of one that a worker has carried, with its steps.

They are spread over the workflows that there are, and over the time since this week's partition began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from psycopg.sql import SQL, Composed, Identifier

_ROWS = 100_000  # of one statement
_COUNTED: LiteralString = "select coalesce(sum(runs), 0)::bigint from run_counts where status = 'completed'"
_PATTERN: LiteralString = "select id from runs where status = 'completed' order by id desc limit 1"
_PLACES: LiteralString = """
create temporary table filling as
select uuidv7(-random() * (now() - date_trunc('week', now() - interval '24 hours', 'UTC'))) as id,
  a.id as automation_id, a.account_id
from generate_series(1, %s) n
join (select id, account_id, row_number() over (order by id) - 1 as place, count(*) over () as many
      from automations where deleted_at is null) a on a.place = n %% a.many
"""
_RUN: Mapping[str, LiteralString] = {
    "id": "f.id",
    "account_id": "f.account_id",
    "automation_id": "f.automation_id",
    "queued_at": "uuid_extract_timestamp(f.id)",
    "started_at": "uuid_extract_timestamp(f.id) + (p.started_at - p.queued_at)",
    "completed_at": "uuid_extract_timestamp(f.id) + (p.completed_at - p.queued_at)",
}
_STEP: Mapping[str, LiteralString] = {
    "run_id": "f.id",
    "started_at": "uuid_extract_timestamp(f.id) + (p.started_at - uuid_extract_timestamp(p.run_id))",
    "completed_at": "uuid_extract_timestamp(f.id) + (p.completed_at - uuid_extract_timestamp(p.run_id))",
}
_COUNT: LiteralString = """
insert into run_counts (account_id, automation_id, status, runs)
select account_id, automation_id, 'completed', count(*) from filling group by account_id, automation_id
"""
Connection = psycopg.AsyncConnection[tuple[Any, ...]]


async def fill(connection: Connection, count: int) -> int:
    """Store finished runs until there are this many; return how many there are.

    One at least must have ended before, to be copied.
    """
    there, pattern = await _value(connection, _COUNTED), await _value(connection, _PATTERN)
    runs = await _build_copy(connection, "runs", _RUN, "id")
    steps = await _build_copy(connection, "run_steps", _STEP, "run_id")
    while there < count:
        rows = min(_ROWS, count - there)
        async with connection.transaction():
            await connection.execute(_PLACES, (rows,))
            await connection.execute(runs, (pattern,))
            await connection.execute(steps, (pattern,))
            await connection.execute(_COUNT)
            await connection.execute("drop table filling")
        there += rows
    await connection.execute("vacuum analyze runs, run_steps, run_counts")
    return there


async def _build_copy(
    connection: Connection, table: str, changed: Mapping[str, LiteralString], key: str
) -> Composed:
    """Return the statement that copies the rows of the pattern for each place, whatever columns there are."""
    cursor = await connection.execute(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped",
        (table,),
    )
    names = [row[0] for row in await cursor.fetchall()]
    values = [SQL(changed[name]) if name in changed else Identifier("p", name) for name in names]
    return SQL(
        "insert into {table} ({names}) select {values} from filling f, {table} p where p.{key} = %s"
    ).format(
        table=Identifier(table),
        names=SQL(", ").join(map(Identifier, names)),
        values=SQL(", ").join(values),
        key=Identifier(key),
    )


async def _value(connection: Connection, query: LiteralString) -> Any:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None, "no run has ended yet"
    return row[0]
