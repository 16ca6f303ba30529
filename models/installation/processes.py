"""The running API and worker processes: each announces every few seconds which root keys it has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection

_ALIVE_SECONDS = 15


class ProcessRow(SQLModel, table=True):
    """A running process.

    Attributes:
        name: for people: its role, its machine and its process id.
        fingerprints: those of its root keys; see `Keyring.fingerprints`.
    """

    __tablename__ = "processes"  # pyright: ignore[reportAssignmentType]

    id: UUID = Field(primary_key=True)
    name: str = Field(sa_type=Text)
    fingerprints: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    seen_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


async def announce(connection: Connection, id: UUID, name: str, fingerprints: Sequence[str]) -> None:
    """Record that a process is alive and which keys it has; delete processes that are long silent."""
    await connection.execute(
        "insert into processes (id, name, fingerprints, seen_at) values (%s, %s, %s, now())"
        " on conflict (id) do update set fingerprints = excluded.fingerprints, seen_at = now()",
        (id, name, list(fingerprints)),
    )
    await connection.execute("delete from processes where seen_at < now() - interval '1 hour'")


async def forget(connection: Connection, id: UUID) -> None:
    """Delete the row of a process that ends."""
    await connection.execute("delete from processes where id = %s", (id,))


async def find_lacking(connection: Connection, fingerprint: str) -> list[str]:
    """Return the names of the live processes that lack the key with this fingerprint."""
    cursor = await connection.execute(
        "select name from processes where seen_at > now() - make_interval(secs => %s)"
        " and %s <> all (fingerprints) order by name",
        (_ALIVE_SECONDS, fingerprint),
    )
    return [row["name"] for row in await cursor.fetchall()]
