"""Messages to the assistant, and the events of each answer.

One task of one API process answers a message. It holds a lease and renews it; each of its writes needs the
lease. A message whose lease has run out without an end is shown as `interrupted`: its process has died.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID, uuid4

from pydantic import Field as Described
from sqlalchemy import Column, DateTime, ForeignKeyConstraint, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.chat import sealed_json
from models.chat.conversations import UNREADABLE
from models.errors import Conflict, NotFound
from models.identifiers import new_id
from models.views import View
from sealing import Keyring, UnsealError

CHANNEL = "vedette_chat"
"""Notified with a message's id when it has new events, a decision, or was cancelled."""
LEASE_SECONDS = 20
MOST_UNFINISHED = 5
"""The most messages of an account that are answered at a time."""

MessageStatus = Literal["running", "waiting", "completed", "failed", "cancelled", "interrupted"]


class ChatMessage(SQLModel, table=True):
    """A message of a person.

    Attributes:
        sealed: its text and what was open beside it.
        reason: of a failure, or of an early end.
        requests: the requests to the model.
    """

    __tablename__ = "chat_messages"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        ForeignKeyConstraint(
            ["account_id", "conversation_id"],
            ["chat_conversations.account_id", "chat_conversations.id"],
            ondelete="CASCADE",
        ),
        Index("ix_chat_messages_conversation", "account_id", "conversation_id", "id"),
        {"postgresql_with": {"fillfactor": 80}},
    )

    account_id: UUID = Field(primary_key=True)
    id: UUID = Field(primary_key=True)
    conversation_id: UUID
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    status: str = Field(sa_type=Text)
    reason: str | None = Field(sa_type=Text)
    lease_id: UUID
    leased_until: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    requests: int
    tool_calls: int
    tokens: int
    credits: int
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    completed_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True), nullable=True))


class ChatEvent(SQLModel, table=True):
    """One event of the answer to a message."""

    __tablename__ = "chat_events"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        ForeignKeyConstraint(
            ["account_id", "message_id"],
            ["chat_messages.account_id", "chat_messages.id"],
            ondelete="CASCADE",
        ),
    )

    account_id: UUID = Field(primary_key=True)
    message_id: UUID = Field(primary_key=True)
    number: int = Field(primary_key=True)
    kind: str = Field(sa_type=Text)
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class MessageView(View):
    """A message of a person, and how its answer stands."""

    id: UUID = Described(description="The message's id.")
    conversation_id: UUID = Described(description="Its conversation.")
    text: str = Described(description="What the person wrote.")
    status: MessageStatus = Described(
        description="`waiting` for an approval; `interrupted` if the process that answered it has died."
    )
    reason: str | None = Described(
        description="Why it failed, or by which bound it ended early; null otherwise."
    )
    answer: str | None = Described(description="The whole answer, once it is complete.")
    requests: int = Described(description="How many requests went to the model.")
    tool_calls: int = Described(description="How many tools were called.")
    tokens: int = Described(description="The tokens of all requests and answers of the model.")
    credits: int = Described(description="The credits that its lookups cost.")
    created_at: datetime = Described(description="When it came.")
    completed_at: datetime | None = Described(description="When its answer ended; null before.")


class Lease(NamedTuple):
    """The right of one task to answer a message."""

    account_id: UUID
    conversation_id: UUID
    message_id: UUID
    id: UUID


class LeaseLost(Exception):
    """The message was cancelled or deleted, or its lease ran out: its task must do nothing further."""


class StoredEvent(NamedTuple):
    """An event of an answer: its number from 1, its kind, its data."""

    number: int
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class DayUse:
    """What an account has used within the last day."""

    messages: int
    tokens: int
    credits: int


async def get_day_use(connection: Connection, account_id: UUID) -> DayUse:
    """Return what an account has used within the last day."""
    cursor = await connection.execute(
        "select count(*)::int as messages, coalesce(sum(tokens), 0)::bigint as tokens,"
        " coalesce(sum(credits), 0)::bigint as credits from chat_messages"
        " where account_id = %s and id > first_id(now() - interval '1 day')",
        (account_id,),
    )
    row = await cursor.fetchone()
    assert row is not None
    return DayUse(**row)


async def lock_account(connection: Connection, account_id: UUID) -> None:
    """Let messages of the account that are sent at the same moment be counted one after the other."""
    lock = f"chat messages {account_id}"
    await connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))


_UNFINISHED: LiteralString = "completed_at is null and leased_until > clock_timestamp()"


async def begin(
    connection: Connection,
    keyring: Keyring,
    account_id: UUID,
    conversation_id: UUID,
    content: Mapping[str, Any],
) -> Lease:
    """Store a message with a lease for its task; call it while the conversation is locked.

    Raises:
        Conflict: another message of the conversation, or too many of the account, are answered now.
    """
    cursor = await connection.execute(
        "select count(*)::int as all, count(*) filter (where conversation_id = %s)::int as here"
        f" from chat_messages where account_id = %s and {_UNFINISHED}",
        (conversation_id, account_id),
    )
    row = await cursor.fetchone()
    assert row is not None
    if row["here"] or row["all"] >= MOST_UNFINISHED:
        message = f"{MOST_UNFINISHED} messages are answered now: wait for the end of one, or cancel one."
        if row["here"]:
            message = "The conversation answers a message already: wait for its end, or cancel it."
        raise Conflict("chat_busy", message)
    lease = Lease(account_id, conversation_id, new_id(), uuid4())
    await connection.execute(
        "insert into chat_messages (account_id, id, conversation_id, sealed, status, lease_id, leased_until,"
        " requests, tool_calls, tokens, credits, created_at) values (%s, %s, %s, %s, 'running', %s,"
        " clock_timestamp() + make_interval(secs => %s), 0, 0, 0, 0, clock_timestamp())",
        (
            account_id, lease.message_id, conversation_id,
            sealed_json.seal(keyring, account_id, lease.message_id, content), lease.id, LEASE_SECONDS,
        ),
    )  # fmt: skip
    return lease


_CHANGE: LiteralString = f"""
update chat_messages set leased_until = clock_timestamp() + make_interval(secs => %(lease)s),
  status = coalesce(%(status)s, status), requests = requests + %(requests)s,
  tool_calls = tool_calls + %(tool_calls)s, tokens = tokens + %(tokens)s, credits = credits + %(credits)s
where account_id = %(account_id)s and id = %(id)s and lease_id = %(lease_id)s and {_UNFINISHED}
"""


async def renew_lease(
    connection: Connection, lease: Lease, *, status: Literal["running", "waiting"] | None = None, **added: int
) -> None:
    """Renew a lease, and add to what the message has used.

    Args:
        connection: inside or outside a transaction.
        lease: the task's.
        status: the new one; None leaves it.
        added: how many `requests`, `tool_calls`, `tokens`, `credits` came on top.

    Raises:
        LeaseLost: the task must stop.
    """
    values = {"requests": 0, "tool_calls": 0, "tokens": 0, "credits": 0, **added}
    values |= {"account_id": lease.account_id, "id": lease.message_id, "lease_id": lease.id}
    cursor = await connection.execute(_CHANGE, {**values, "lease": LEASE_SECONDS, "status": status})
    if not cursor.rowcount:
        raise LeaseLost


async def add_events(
    connection: Connection, keyring: Keyring, lease: Lease, events: Sequence[StoredEvent]
) -> None:
    """Append events of the answer; call it in a transaction that has renewed the lease."""
    async with connection.cursor() as cursor:
        await cursor.executemany(
            "insert into chat_events (account_id, message_id, number, kind, sealed)"
            " values (%s, %s, %s, %s, %s)",
            [
                (
                    lease.account_id, lease.message_id, one.number, one.kind,
                    sealed_json.seal(keyring, lease.account_id, f"{lease.message_id}/{one.number}", one.data),
                )
                for one in events
            ],
        )  # fmt: skip


async def end(
    connection: Connection, lease: Lease, status: Literal["completed", "failed"], reason: str | None
) -> None:
    """End a message.

    Raises:
        LeaseLost: it was cancelled meanwhile, or its lease has run out.
    """
    cursor = await connection.execute(
        "update chat_messages set status = %s, reason = %s, completed_at = clock_timestamp()"
        f" where account_id = %s and id = %s and lease_id = %s and {_UNFINISHED}",
        (status, reason, lease.account_id, lease.message_id, lease.id),
    )
    if not cursor.rowcount:
        raise LeaseLost


async def give_up(connection: Connection, lease: Lease) -> None:
    """End a lease at once, so that the message is shown as interrupted: the process stops."""
    await connection.execute(
        "update chat_messages set leased_until = clock_timestamp()"
        " where account_id = %s and id = %s and lease_id = %s and completed_at is null",
        (lease.account_id, lease.message_id, lease.id),
    )


async def cancel(connection: Connection, account_id: UUID, conversation_id: UUID, id: UUID) -> None:
    """End the answer to a message now. What it has done stays; one that has ended stays as it is."""
    await connection.execute(
        "update chat_messages set status = 'cancelled', completed_at = clock_timestamp()"
        f" where account_id = %s and conversation_id = %s and id = %s and {_UNFINISHED}",
        (account_id, conversation_id, id),
    )


_SHOWN: LiteralString = f"""
select m.*, e.sealed as answer, e.number, case when {_UNFINISHED} then status
  when completed_at is null then 'interrupted' else status end as shown_status
from chat_messages m left join chat_events e
  on e.account_id = m.account_id and e.message_id = m.id and e.kind = 'answer'
where m.account_id = %(account_id)s and m.conversation_id = %(conversation_id)s
  and (%(id)s::uuid is null or m.id = %(id)s)
order by m.id desc limit %(limit)s
"""


async def get(
    connection: Connection, keyring: Keyring, account_id: UUID, conversation_id: UUID, id: UUID
) -> MessageView:
    """Return one message.

    Raises:
        NotFound: it is unknown, or of another conversation or account.
    """
    found = await _load(connection, keyring, account_id, conversation_id, id, 1)
    if not found:
        raise NotFound("message")
    return found[0]


async def list_newest(
    connection: Connection, keyring: Keyring, account_id: UUID, conversation_id: UUID, limit: int
) -> list[MessageView]:
    """Return the last messages of a conversation, newest first."""
    return await _load(connection, keyring, account_id, conversation_id, None, limit)


async def read_events(
    connection: Connection, keyring: Keyring, account_id: UUID, message_id: UUID, after: int
) -> list[StoredEvent]:
    """Return the events of a message after a number."""
    cursor = await connection.execute(
        "select number, kind, sealed from chat_events where account_id = %s and message_id = %s"
        " and number > %s order by number",
        (account_id, message_id, after),
    )
    return [
        StoredEvent(
            row["number"],
            row["kind"],
            _open(keyring, account_id, f"{message_id}/{row['number']}", row["sealed"]),
        )
        for row in await cursor.fetchall()
    ]


async def _load(
    connection: Connection,
    keyring: Keyring,
    account_id: UUID,
    conversation_id: UUID,
    id: UUID | None,
    limit: int,
) -> list[MessageView]:
    wanted = {"account_id": account_id, "conversation_id": conversation_id, "id": id, "limit": limit}
    rows = await (await connection.execute(_SHOWN, wanted)).fetchall()
    names = ("id", "conversation_id", "reason", "requests", "tool_calls", "tokens", "credits", "created_at",
             "completed_at")  # fmt: skip
    return [
        MessageView(
            text=_open(keyring, account_id, row["id"], row["sealed"])["text"],
            status=row["shown_status"],
            answer=_open(keyring, account_id, f"{row['id']}/{row['number']}", row["answer"])["text"]
            if row["answer"] is not None
            else None,
            **{name: row[name] for name in names},
        )
        for row in rows
    ]


def _open(keyring: Keyring, account_id: UUID, place: object, sealed: bytes) -> dict[str, Any]:
    try:
        return sealed_json.unseal(keyring, account_id, place, sealed)
    except UnsealError:
        return {"text": UNREADABLE}
