"""Known addresses: an account can log in from them even while guesses from elsewhere are blocked."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, ForeignKey, Text
from sqlmodel import Field, SQLModel

from database import Connection

KEPT_DAYS = 90


class KnownAddress(SQLModel, table=True):
    """A network from which the account was logged in to, in the form that limits count, and the last time."""

    __tablename__ = "known_addresses"  # pyright: ignore[reportAssignmentType]

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    network: str = Field(sa_column=Column(Text, primary_key=True))
    seen_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False, index=True))


async def remember(connection: Connection, account_id: UUID, network: str) -> None:
    """Record a login from this network."""
    await connection.execute(
        "insert into known_addresses (account_id, network, seen_at) values (%s, %s, now())"
        " on conflict (account_id, network) do update set seen_at = excluded.seen_at",
        (account_id, network),
    )


async def is_known(connection: Connection, email: str, network: str) -> bool:
    """Return whether the account with this e-mail, if there is one, has logged in from this network."""
    cursor = await connection.execute(
        "select 1 from accounts a join known_addresses k on k.account_id = a.id"
        " where a.email = %s and k.network = %s",
        (email, network),
    )
    return await cursor.fetchone() is not None


async def forget(connection: Connection, account_id: UUID, *, but: str | None) -> None:
    """Delete all known addresses of the account, except `but`."""
    await connection.execute(
        "delete from known_addresses where account_id = %s and network is distinct from %s", (account_id, but)
    )


async def forget_old(connection: Connection) -> None:
    """Delete the addresses without a login for 90 days."""
    await connection.execute(
        "delete from known_addresses where seen_at <= now() - make_interval(days => %s)", (KEPT_DAYS,)
    )
