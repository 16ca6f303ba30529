"""Links that sign a browser in once: printed at a terminal of the service, good for a minute."""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import datetime
from uuid import UUID

from sqlalchemy import Column, DateTime, ForeignKey, LargeBinary
from sqlmodel import Field, SQLModel

from database import Connection
from sealing import decode_base64url

SECONDS = 60
_SECRET_BYTES = 24
_ID_BYTES = 16


class SignInLink(SQLModel, table=True):
    """A link that has not been used."""

    __tablename__ = "sign_in_links"  # pyright: ignore[reportAssignmentType]

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


async def make(connection: Connection, account_id: UUID) -> str:
    """Make a link for the account, and return its token."""
    secret = account_id.bytes + secrets.token_bytes(_SECRET_BYTES)
    await connection.execute(
        "insert into sign_in_links (account_id, hash, expires_at)"
        " values (%s, %s, now() + make_interval(secs => %s))",
        (account_id, hashlib.sha256(secret).digest(), SECONDS),
    )
    return base64.urlsafe_b64encode(secret).decode().rstrip("=")


async def use(connection: Connection, token: str) -> UUID | None:
    """Use a link up, and return its account; None if it is none, is over, or was used."""
    secret = decode_base64url(token)
    if secret is None or len(secret) != _ID_BYTES + _SECRET_BYTES:
        return None
    cursor = await connection.execute(
        "delete from sign_in_links where account_id = %s and hash = %s"
        " returning account_id, expires_at > now() as good",
        (UUID(bytes=secret[:_ID_BYTES]), hashlib.sha256(secret).digest()),
    )
    row = await cursor.fetchone()
    return row["account_id"] if row and row["good"] else None


async def forget_expired(connection: Connection) -> None:
    """Delete the links that are over."""
    await connection.execute("delete from sign_in_links where expires_at < now()")
