"""A probe whether the database can write: a real write that needs all that an insert can need."""

from __future__ import annotations

import psycopg
from sqlalchemy import Column, SmallInteger, Text
from sqlmodel import Field, SQLModel

from database import Connection

_PAGES = 4


class WriteProbeRow(SQLModel, table=True):
    """A row that fills a page. Its content has no meaning."""

    __tablename__ = "write_probe"  # pyright: ignore[reportAssignmentType]

    id: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    filling: str = Field(sa_column=Column(Text, nullable=False))


async def try_to_write(connection: Connection) -> None:
    """Write a few pages in a transaction.

    On a full disk a row still fits into an existing page, and the write-ahead log into its last file.
    Therefore the table gets new files, to which pages must be added.

    Raises:
        psycopg.Error: the write failed; `refusal_of` describes the cause.
    """
    try:
        async with connection.transaction():
            await connection.execute("set local lock_timeout = '200ms'")
            await connection.execute("truncate write_probe")
            await connection.execute(
                "insert into write_probe (id, filling) select n, repeat('x', 8000)"
                " from generate_series(1, %s) as n",
                (_PAGES,),
            )
    except psycopg.errors.LockNotAvailable:
        return  # another process writes to it right now, or a dump reads it


def refusal_of(error: psycopg.Error) -> str | None:
    """Return a message on why the database refused a write; None if the connection was lost."""
    if isinstance(error, psycopg.errors.DiskFull):
        return "cannot write: its disk is full"
    if error.sqlstate is None or error.sqlstate.startswith(("08", "57")):
        return None
    return f"cannot write (SQLSTATE {error.sqlstate})"
