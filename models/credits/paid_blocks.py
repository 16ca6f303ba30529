"""Blocks of results that an account has paid for: their pages are free for 24 hours."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, ForeignKey, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection

_FREE = "24 hours"


class PaidBlock(SQLModel, table=True):
    """A paid block of the results of one query."""

    __tablename__ = "paid_blocks"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_paid_blocks_paid_at", "paid_at"),)

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True)
    )
    kind: str = Field(sa_column=Column(Text, primary_key=True))
    query_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    block: int = Field(primary_key=True)
    paid_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]


async def is_paid(connection: Connection, account_id: UUID, kind: str, query_hash: bytes, block: int) -> bool:
    """Return whether the account has paid for the block within the last 24 hours."""
    cursor = await connection.execute(
        "select 1 from paid_blocks where account_id = %s and kind = %s and query_hash = %s and block = %s"
        " and paid_at > now() - %s::interval",
        (account_id, kind, query_hash, block, _FREE),
    )
    return await cursor.fetchone() is not None


async def claim(connection: Connection, account_id: UUID, kind: str, query_hash: bytes, block: int) -> bool:
    """Record the payment of a block, in the transaction of its charge; return False if it is already paid.

    A payment counts for 24 hours. Of several concurrent payments one succeeds: the others wait for its
    transaction.
    """
    cursor = await connection.execute(
        "insert into paid_blocks as p (account_id, kind, query_hash, block, paid_at)"
        " values (%s, %s, %s, %s, now())"
        " on conflict (account_id, kind, query_hash, block) do update set paid_at = now()"
        " where p.paid_at <= now() - %s::interval",
        (account_id, kind, query_hash, block, _FREE),
    )
    return cursor.rowcount == 1


async def purge(connection: Connection, limit: int = 5000) -> int:
    """Delete up to `limit` blocks whose pages are no longer free; return their number."""
    cursor = await connection.execute(
        "delete from paid_blocks where ctid = any(array("
        "select ctid from paid_blocks where paid_at < now() - %s::interval order by paid_at limit %s"
        " for update skip locked))",
        (_FREE, limit),
    )
    return cursor.rowcount
