"""Conversations with the assistant. Texts are sealed; a conversation unused for 30 days is deleted."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import Field as Described
from sqlalchemy import Column, DateTime, ForeignKey, Index, LargeBinary
from sqlmodel import Field, SQLModel

from database import Connection
from models.chat import sealed_json
from models.errors import NotFound
from models.identifiers import new_id
from models.views import View
from sealing import Keyring, UnsealError

KEPT = timedelta(days=30)
"""The time for which an unused conversation is kept."""
UNREADABLE = "(sealed with a key that is gone)"


class ChatConversation(SQLModel, table=True):
    """A conversation.

    Attributes:
        sealed: its `Memory`.
        credit_budget: the credits that lookups may spend without an approval.
        tainted: whether the model has read text from outside.
    """

    __tablename__ = "chat_conversations"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_chat_conversations_updated_at", "updated_at"),
        {"postgresql_with": {"fillfactor": 80}},
    )

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    id: UUID = Field(primary_key=True)
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    credit_budget: int
    credits_used: int
    tainted: bool
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    updated_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(slots=True)
class Memory:
    """What the model remembers of a conversation.

    Attributes:
        title: the beginning of the first message.
        history: the messages of the model's protocol, as JSON.
        results: by number, where the facts of each result come from.
    """

    title: str = ""
    history: list[Any] = field(default_factory=list[Any])
    results: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation that a message continues."""

    memory: Memory
    credits_left: int
    tainted: bool


class ConversationView(View):
    """A conversation with the assistant."""

    id: UUID = Described(description="The conversation's id.")
    title: str = Described(description="The beginning of its first message; empty before that.")
    credit_budget: int = Described(description="The credits that lookups may spend without an approval.")
    credits_used: int = Described(description="The credits that were spent so far.")
    tainted: bool = Described(
        description="Whether the model has read text from outside: then whatever sends needs an approval."
    )
    created_at: datetime = Described(description="When it was begun.")
    updated_at: datetime = Described(description="When it was last continued.")


async def create(
    connection: Connection, keyring: Keyring, account_id: UUID, credit_budget: int
) -> ConversationView:
    """Begin a conversation."""
    id = new_id()
    await connection.execute(
        "insert into chat_conversations (account_id, id, sealed, credit_budget, credits_used, tainted,"
        " created_at, updated_at) values (%s, %s, %s, %s, 0, false, now(), now())",
        (account_id, id, sealed_json.seal(keyring, account_id, id, asdict(Memory())), credit_budget),
    )
    return await get(connection, keyring, account_id, id)


async def get(connection: Connection, keyring: Keyring, account_id: UUID, id: UUID) -> ConversationView:
    """Return one conversation.

    Raises:
        NotFound: it is unknown, or another account's.
    """
    return _view(keyring, await _load(connection, account_id, id))


async def list_newest(
    connection: Connection, keyring: Keyring, account_id: UUID, *, before: UUID | None, limit: int
) -> list[ConversationView]:
    """Return a page of the account's conversations, newest first."""
    cursor = await connection.execute(
        "select * from chat_conversations where account_id = %s and (%s::uuid is null or id < %s)"
        " order by id desc limit %s",
        (account_id, before, before, limit),
    )
    return [_view(keyring, row) for row in await cursor.fetchall()]


async def delete(connection: Connection, account_id: UUID, id: UUID) -> None:
    """Delete a conversation with all its messages.

    Raises:
        NotFound: it is unknown, or another account's.
    """
    cursor = await connection.execute(
        "delete from chat_conversations where account_id = %s and id = %s", (account_id, id)
    )
    if not cursor.rowcount:
        raise NotFound("conversation")


async def open_memory(
    connection: Connection, keyring: Keyring, account_id: UUID, id: UUID
) -> OpenedConversation:
    """Return a conversation to continue; call it in the transaction that begins its message.

    Its row stays locked, so that one message begins at a time.

    Raises:
        NotFound: it is unknown, or another account's.
    """
    row = await _load(connection, account_id, id, lock=True)
    left = max(0, row["credit_budget"] - row["credits_used"])
    return OpenedConversation(_open_memory(keyring, row), left, row["tainted"])


async def set_title(
    connection: Connection, keyring: Keyring, account_id: UUID, id: UUID, memory: Memory
) -> None:
    """Store the memory of a conversation that has got its title."""
    await connection.execute(
        "update chat_conversations set sealed = %s, updated_at = now() where account_id = %s and id = %s",
        (sealed_json.seal(keyring, account_id, id, asdict(memory)), account_id, id),
    )


async def record_progress(
    connection: Connection, account_id: UUID, id: UUID, *, credits: int, tainted: bool
) -> None:
    """Add spent credits, and mark the conversation once the model has read text from outside."""
    await connection.execute(
        "update chat_conversations set credits_used = credits_used + %s, tainted = tainted or %s,"
        " updated_at = now() where account_id = %s and id = %s",
        (credits, tainted, account_id, id),
    )


async def purge(connection: Connection, limit: int = 500) -> int:
    """Delete conversations unused for 30 days, `limit` at most; return their number."""
    cursor = await connection.execute(
        "delete from chat_conversations where (account_id, id) in (select account_id, id from"
        " chat_conversations where updated_at < now() - %s limit %s)",
        (KEPT, limit),
    )
    return cursor.rowcount


async def _load(connection: Connection, account_id: UUID, id: UUID, *, lock: bool = False) -> dict[str, Any]:
    cursor = await connection.execute(
        "select * from chat_conversations where account_id = %s and id = %s"
        + (" for no key update" if lock else ""),
        (account_id, id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("conversation")
    return row


def _open_memory(keyring: Keyring, row: dict[str, Any]) -> Memory:
    try:
        return Memory(**sealed_json.unseal(keyring, row["account_id"], row["id"], row["sealed"]))
    except UnsealError:
        return Memory(title=UNREADABLE)


def _view(keyring: Keyring, row: dict[str, Any]) -> ConversationView:
    names = ("id", "credit_budget", "credits_used", "tainted", "created_at", "updated_at")
    return ConversationView(title=_open_memory(keyring, row).title, **{name: row[name] for name in names})
