"""Weeks that are over, of the tables that are divided by time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.sql import SQL, Identifier, Literal

from database import Connection


def first_id(moment: datetime) -> UUID:
    """Return what is before all ids that are made at that moment or later."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def id_of(moment: datetime, number: int = 0) -> UUID:
    """An id as it was made at that moment."""
    return UUID(int=first_id(moment).int | 0x7 << 76 | 0x8 << 60 | number)


async def make_week(connection: Connection, tables: Sequence[str], moment: datetime) -> str:
    """Make the partitions of a week that is over, as time would have; the end of their names."""
    monday = (moment - timedelta(days=moment.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    suffix = f"_{monday:%Y%m%d}"
    for table in tables:
        make = SQL("create table if not exists {} partition of {} for values from ({}) to ({})")
        bounds = [Literal(str(first_id(day))) for day in (monday, monday + timedelta(days=7))]
        await connection.execute(make.format(Identifier(table + suffix), Identifier(table), *bounds))
    return suffix


async def partitions(connection: Connection, tables: Sequence[str], suffix: str) -> int:
    """Return how many partitions there are of a week."""
    cursor = await connection.execute(
        "select count(*) as n from pg_class where relname = any(%s)", ([table + suffix for table in tables],)
    )
    row: Any = await cursor.fetchone()
    return row["n"]
