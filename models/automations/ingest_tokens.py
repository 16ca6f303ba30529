"""Ingest tokens: the secret in a workflow's ingest URL that proves that its owner gave the URL away.

A workflow has one token: its hash finds the workflow, its sealed copy shows the owner the URL. A replaced
token may work for a while longer; there is at most one such token.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import NamedTuple, cast
from uuid import UUID

from sqlalchemy import Column, DateTime, ForeignKey, LargeBinary
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor
from models.errors import NotFound
from sealing import Keyring

_PURPOSE = "ingest"
_RANDOM_BYTES = 32


class FormerIngestToken(SQLModel, table=True):
    """The previous token of a workflow, valid until `ends_at`."""

    __tablename__ = "former_ingest_tokens"  # pyright: ignore[reportAssignmentType]

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), nullable=False, unique=True)
    )
    ends_at: datetime = Field(sa_type=DateTime(timezone=True))  # pyright: ignore[reportArgumentType]


class IngestToken(NamedTuple):
    """A token, and the two forms of it that are stored."""

    text: str
    hash: bytes
    sealed: bytes


def new_token(keyring: Keyring, automation_id: UUID) -> IngestToken:
    """Make a token for a workflow."""
    text = token_urlsafe(_RANDOM_BYTES)
    return IngestToken(text, hash_token(text), keyring.seal(_PURPOSE, text.encode(), str(automation_id)))


def hash_token(token: str) -> bytes:
    """Return the hash under which a token is stored."""
    return hashlib.sha256(token.encode()).digest()


def url_of(keyring: Keyring, automation_id: UUID, sealed: bytes, address: str) -> str:
    """Return a workflow's ingest URL, from the sealed copy of its token and the service's public address."""
    token = keyring.open(_PURPOSE, sealed, str(automation_id)).decode()
    return f"{address}/api/workflows/ingest/{token}"


class RotatedToken(NamedTuple):
    """The sealed copy of the new token, and the end of the one before it; None if that ended at once."""

    sealed: bytes
    former_ends_at: datetime | None


async def rotate(
    connection: Connection, keyring: Keyring, actor: Actor, automation_id: UUID, overlap: timedelta
) -> RotatedToken:
    """Replace a workflow's token. Run it inside a transaction.

    Args:
        connection: inside a transaction.
        keyring: seals the token.
        actor: the owner of the workflow, and the one who replaces the token.
        automation_id: the workflow.
        overlap: the time for which the previous token still works. The one before that ends.

    Raises:
        NotFound: the workflow is unknown, or another account's.
    """
    cursor = await connection.execute(
        "select name, ingest_token_hash from automations"
        " where account_id = %s and id = %s and deleted_at is null for update",
        (actor.account_id, automation_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("workflow")
    token = new_token(keyring, automation_id)
    await connection.execute(
        "update automations set ingest_token_hash = %s, ingest_token_sealed = %s, updated_at = now()"
        " where id = %s",
        (token.hash, token.sealed, automation_id),
    )
    await connection.execute("delete from former_ingest_tokens where automation_id = %s", (automation_id,))
    ends_at: datetime | None = None
    if overlap:
        cursor = await connection.execute(
            "insert into former_ingest_tokens (token_hash, automation_id, ends_at)"
            " values (%s, %s, now() + %s) returning ends_at",
            (row["ingest_token_hash"], automation_id, overlap),
        )
        ends_at = cast(dict[str, datetime], await cursor.fetchone())["ends_at"]
    changes = {"overlap_seconds": int(overlap.total_seconds())}
    target = audit.Target("workflow", automation_id, row["name"])
    await audit.record(connection, actor, "workflow.token_rotated", target, changes)
    return RotatedToken(token.sealed, ends_at)
