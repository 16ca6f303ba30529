"""The schema of the database, as the last migration recorded it.

`schema_revision` has the revision of the last migration. `alembic_version` has the oldest revision whose
releases still work with the schema: releases of before 0044 know that table alone, and start only if it has
exactly their own revision.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import LiteralString, NamedTuple

import psycopg

from database import Connection


class Schema(NamedTuple):
    """The schema of a database.

    Attributes:
        revision: of the last migration.
        works_from: the oldest revision whose releases work with it.
    """

    revision: str
    works_from: str


SCHEMA: LiteralString = (
    "select r.version_num as revision, coalesce(w.version_num, r.version_num) as works_from"
    " from schema_revision r left join alembic_version w on true"
)
"""Selects the fields of `Schema`."""
# As releases of before 0044 recorded it.
_FORMER: LiteralString = "select version_num as revision, version_num as works_from from alembic_version"


async def find_schema(connection: Connection) -> Schema | None:
    """Return the schema; None if the database was never migrated.

    Args:
        connection: outside a transaction.
    """
    for statement in (SCHEMA, _FORMER):
        try:
            row = await (await connection.execute(statement)).fetchone()
        except psycopg.errors.UndefinedTable:
            continue
        return Schema(**row) if row else None
    return None


_SIZES: LiteralString = """
select c.oid::regclass::text as name, sum(greatest(p.reltuples, 0))::bigint as rows,
  sum(pg_total_relation_size(p.oid))::bigint as bytes
from pg_class c cross join lateral (
  select c.oid union all select relid from pg_partition_tree(c.oid) where isleaf and relid <> c.oid) t
join pg_class p on p.oid = t.oid
where c.oid = any(array(select to_regclass(name) from unnest(%s::text[]) as name)::oid[])
group by c.oid
"""


async def measure_tables(connection: Connection, tables: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return the estimated rows and the bytes, with partitions and indexes, of the tables that exist."""
    rows = await (await connection.execute(_SIZES, (list(tables),))).fetchall()
    return {row["name"]: (row["rows"], row["bytes"]) for row in rows}


async def find_time(connection: Connection) -> datetime:
    """Return the database's time."""
    cursor = await connection.execute("select clock_timestamp() as now")
    row = await cursor.fetchone()
    assert row is not None
    return row["now"]
