"""Approvals of the assistant's calls: each is for one call with its arguments, once, for ten minutes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast
from uuid import UUID

import orjson
from sqlalchemy import Column, DateTime, ForeignKeyConstraint, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.chat import sealed_json
from models.chat.messages import Lease
from models.errors import Conflict, NotFound
from models.identifiers import new_id
from sealing import Keyring

SECONDS = 600
"""The time for which an approval can be given."""
Decision = Literal["approve", "deny"]


class ChatApproval(SQLModel, table=True):
    """An approval that a call waits for.

    Attributes:
        call_id: of the model's call.
        sealed: the arguments, and what the card shows beside them.
        sealed_edit: the arguments that a person has put in the place of these.
        used_at: when the call has taken the decision.
    """

    __tablename__ = "chat_approvals"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        ForeignKeyConstraint(
            ["account_id", "message_id"],
            ["chat_messages.account_id", "chat_messages.id"],
            ondelete="CASCADE",
        ),
        Index("ix_chat_approvals_message", "account_id", "message_id"),
    )

    account_id: UUID = Field(primary_key=True)
    id: UUID = Field(primary_key=True)
    message_id: UUID
    call_id: str = Field(sa_type=Text)
    tool: str = Field(sa_type=Text)
    arguments_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sealed_edit: bytes | None = Field(sa_column=Column(LargeBinary, nullable=True))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    decision: str | None = Field(sa_type=Text)
    decided_by: str | None = Field(sa_type=Text)
    decided_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True), nullable=True))
    used_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True), nullable=True))


@dataclass(frozen=True)
class AskedApproval:
    """An approval that was asked for."""

    id: UUID
    arguments_hash: str
    expires_at: datetime


@dataclass(frozen=True)
class TakenDecision:
    """A decision that a call has taken; `arguments` are those that a person has put in, if any."""

    decision: Decision
    arguments: dict[str, Any] | None


def hash_arguments(tool: str, arguments: dict[str, Any]) -> bytes:
    """Return the hash of a call: of its tool and of its arguments, whatever the order of their names."""
    return hashlib.sha256(orjson.dumps([tool, arguments], option=orjson.OPT_SORT_KEYS)).digest()


async def ask(
    connection: Connection, keyring: Keyring, lease: Lease, call_id: str, tool: str, arguments: dict[str, Any]
) -> AskedApproval:
    """Ask for an approval; call it in a transaction that has renewed the lease."""
    id, digest = new_id(), hash_arguments(tool, arguments)
    cursor = await connection.execute(
        "insert into chat_approvals (account_id, id, message_id, call_id, tool, arguments_hash, sealed,"
        " expires_at) values (%s, %s, %s, %s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s))"
        " returning expires_at",
        (
            lease.account_id, id, lease.message_id, call_id, tool, digest,
            sealed_json.seal(keyring, lease.account_id, id, arguments), SECONDS,
        ),
    )  # fmt: skip
    row = await cursor.fetchone()
    assert row is not None
    return AskedApproval(id, digest.hex(), row["expires_at"])


@dataclass(frozen=True)
class OpenApproval:
    """An approval that nobody has decided on yet."""

    message_id: UUID
    tool: str


async def find_open(
    connection: Connection, account_id: UUID, conversation_id: UUID, id: UUID, arguments_hash: str
) -> OpenApproval:
    """Return an approval to decide on.

    Raises:
        NotFound: it is unknown, or of another conversation or account.
        Conflict: it is decided, expired or for other arguments, or its message has ended (`approval_over`).
    """
    cursor = await connection.execute(
        "select a.message_id, a.tool, a.arguments_hash, a.decision,"
        " a.expires_at <= clock_timestamp() as late,"
        " m.completed_at is not null or m.leased_until <= clock_timestamp() as over"
        " from chat_approvals a join chat_messages m on m.account_id = a.account_id and m.id = a.message_id"
        " where a.account_id = %s and m.conversation_id = %s and a.id = %s for no key update of a",
        (account_id, conversation_id, id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("approval")
    if row["decision"] is not None:
        raise _over("Somebody has decided on this approval already.")
    if row["over"]:
        raise _over("The answer that asked for this approval has ended.")
    if row["late"]:
        raise _over("This approval has expired: ten minutes have passed.")
    if cast(bytes, row["arguments_hash"]).hex() != arguments_hash:
        raise _over("This approval is for other arguments: read it again.")
    return OpenApproval(row["message_id"], row["tool"])


def _over(message: str) -> Conflict:
    return Conflict("approval_over", f"{message} Send a new message to have it asked for again.")


async def decide(
    connection: Connection,
    keyring: Keyring,
    actor: Actor,
    id: UUID,
    decision: Decision,
    arguments: dict[str, Any] | None,
) -> None:
    """Record a decision, in the transaction that has found the approval open."""
    edit = None
    if arguments is not None:
        edit = sealed_json.seal(keyring, actor.account_id, f"{id}/edit", arguments)
    cursor = await connection.execute(
        "update chat_approvals set decision = %s, sealed_edit = %s, decided_by = %s,"
        " decided_at = clock_timestamp() where account_id = %s and id = %s returning tool",
        (decision, edit, actor.name, actor.account_id, id),
    )
    row = await cursor.fetchone()
    assert row is not None
    action = "chat.approved" if decision == "approve" else "chat.denied"
    changes = {"tool": row["tool"], "edited": arguments is not None}
    await audit.record(connection, actor, action, Target("chat approval", id), changes)


async def take_decision(
    connection: Connection, keyring: Keyring, account_id: UUID, id: UUID, digest: str
) -> TakenDecision | None:
    """Take a decision for the call with these arguments, once; None while there is none."""
    cursor = await connection.execute(
        "update chat_approvals set used_at = clock_timestamp() where account_id = %s and id = %s"
        " and decision is not null and used_at is null and arguments_hash = %s"
        " returning decision, sealed_edit",
        (account_id, id, bytes.fromhex(digest)),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    edit = row["sealed_edit"]
    edited = None if edit is None else sealed_json.unseal(keyring, account_id, f"{id}/edit", edit)
    return TakenDecision(row["decision"], edited)
