"""The consent of an account: that its targets' data go to the host of the model."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, ForeignKey, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target


class ChatConsent(SQLModel, table=True):
    """A consent. It is for one host: with another model host it counts no longer."""

    __tablename__ = "chat_consents"  # pyright: ignore[reportAssignmentType]

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    host: str = Field(sa_type=Text)
    agreed_by: str = Field(sa_type=Text)
    agreed_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


async def agree(connection: Connection, actor: Actor, host: str) -> None:
    """Record the consent of the actor's account to this host."""
    await connection.execute(
        "insert into chat_consents (account_id, host, agreed_by, agreed_at) values (%s, %s, %s, now())"
        " on conflict (account_id) do update set host = excluded.host, agreed_by = excluded.agreed_by,"
        " agreed_at = excluded.agreed_at",
        (actor.account_id, host, actor.name),
    )
    await audit.record(connection, actor, "chat.agreed", Target("chat"), {"host": host})


async def withdraw(connection: Connection, actor: Actor) -> None:
    """Delete the consent of the actor's account; without one nothing changes."""
    cursor = await connection.execute("delete from chat_consents where account_id = %s", (actor.account_id,))
    if cursor.rowcount:
        await audit.record(connection, actor, "chat.withdrawn", Target("chat"))


async def find_time(connection: Connection, account_id: UUID, host: str) -> datetime | None:
    """Return when an account agreed to this host; None if it has not."""
    cursor = await connection.execute(
        "select agreed_at from chat_consents where account_id = %s and host = %s", (account_id, host)
    )
    row = await cursor.fetchone()
    return row["agreed_at"] if row else None
