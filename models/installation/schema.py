"""The schema's revision in the database, as the last migration recorded it."""

from __future__ import annotations

from datetime import datetime

import psycopg

from database import Connection


async def find_revision(connection: Connection) -> str | None:
    """Return the revision; None if the database was never migrated."""
    try:
        cursor = await connection.execute("select version_num from alembic_version")
    except psycopg.errors.UndefinedTable:
        return None
    row = await cursor.fetchone()
    return row["version_num"] if row else None


async def find_time(connection: Connection) -> datetime:
    """Return the database's time."""
    cursor = await connection.execute("select clock_timestamp() as now")
    row = await cursor.fetchone()
    assert row is not None
    return row["now"]
