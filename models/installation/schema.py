"""Which revision the schema of the database is at: what the last migration has noted."""

from __future__ import annotations

from datetime import datetime

import psycopg

from database import Connection


async def find_revision(connection: Connection) -> str | None:
    """Find the revision; None where nobody has migrated the database."""
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
