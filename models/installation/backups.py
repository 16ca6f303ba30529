"""The time of the last backup, so that its age can be watched."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, Column, DateTime, SmallInteger
from sqlmodel import Field, SQLModel

from database import Connection


class LastBackup(SQLModel, table=True):
    """The last backup that `vedette backup` has made, a single row."""

    __tablename__ = "last_backup"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (CheckConstraint("id = 1", name="one"),)

    id: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    made_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


async def note(connection: Connection, made_at: datetime) -> None:
    """Record the time of a backup that was made."""
    await connection.execute(
        "insert into last_backup (id, made_at) values (1, %s)"
        " on conflict (id) do update set made_at = greatest(last_backup.made_at, excluded.made_at)",
        (made_at,),
    )


async def find_age(connection: Connection) -> float | None:
    """Return the age of the last backup in seconds; None if none is known."""
    cursor = await connection.execute(
        "select extract(epoch from now() - made_at)::float8 as seconds from last_backup"
    )
    row = await cursor.fetchone()
    return row["seconds"] if row else None
