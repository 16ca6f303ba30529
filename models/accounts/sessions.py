"""Sessions: signed tokens, each checked against its row, so that a session can be ended at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import jwt
from sqlalchemy import Column, DateTime, ForeignKey, Index, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.identifiers import new_id
from sealing import Keyring, decode_base64url

CHANNEL = "keys"
"""The channel on which the id of a session or key that ended is announced."""

_ISSUER = "vedette"
_AUDIENCE = "vedette/api"
_PURPOSE = "sessions"


class Session(SQLModel, table=True):
    """A login that has not ended."""

    __tablename__ = "sessions"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_sessions_account_id", "account_id"),)

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    ip: str | None = Field(sa_type=Text)
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class Token:
    """The token of a new session, and the time when it expires."""

    session_id: UUID
    token: str
    expires_at: datetime


@dataclass(frozen=True)
class Claims:
    """The content of a token with a valid signature."""

    account_id: UUID
    session_id: UUID
    expires_at: datetime


async def begin(
    connection: Connection, keyring: Keyring, account_id: UUID, hours: int, ip: str | None
) -> Token:
    """Begin a session of this many hours."""
    session_id, now = new_id(), datetime.now(UTC).replace(microsecond=0)
    expires_at = now + timedelta(hours=hours)
    await connection.execute(
        "insert into sessions (id, account_id, ip, created_at, expires_at) values (%s, %s, %s, %s, %s)",
        (session_id, account_id, ip, now, expires_at),
    )
    claims = {
        "iss": _ISSUER, "aud": _AUDIENCE, "sub": str(account_id), "sid": str(session_id),
        "iat": now, "exp": expires_at,
    }  # fmt: skip
    token = jwt.encode(claims, keyring.derive_keys(_PURPOSE)[0], algorithm="HS256")
    return Token(session_id=session_id, token=token, expires_at=expires_at)


def read_claims(keyring: Keyring, token: str) -> Claims | None:
    """Return the content of `token`, if one of our keys signed it and it has not expired."""
    if decode_base64url(token.rpartition(".")[2]) is None:
        return None  # another spelling of the same token: caches would not drop it when the session ends
    for key in keyring.derive_keys(_PURPOSE):
        try:
            claims = jwt.decode(
                token, key, algorithms=["HS256"], audience=_AUDIENCE, issuer=_ISSUER,
                options={"require": ["exp", "iat", "sub", "sid", "iss", "aud"]},
            )  # fmt: skip
        except jwt.InvalidSignatureError:
            continue  # perhaps signed before the newest key was added
        except jwt.InvalidTokenError:
            return None
        return Claims(
            account_id=UUID(claims["sub"]),
            session_id=UUID(claims["sid"]),
            expires_at=datetime.fromtimestamp(claims["exp"], UTC),
        )
    return None


async def find_live_email(connection: Connection, claims: Claims) -> str | None:
    """Return the e-mail of the session's account, if the session has not ended."""
    cursor = await connection.execute(
        "select a.email from sessions s join accounts a on a.id = s.account_id"
        " where s.id = %s and s.account_id = %s and s.expires_at > now()",
        (claims.session_id, claims.account_id),
    )
    row = await cursor.fetchone()
    return row["email"] if row else None


async def end(connection: Connection, actor: Actor, session_id: UUID) -> None:
    """End a session everywhere at once; call it in a transaction."""
    cursor = await connection.execute(
        "with ended as (delete from sessions where id = %s and account_id = %s returning id)"
        f" select pg_notify('{CHANNEL}', id::text) from ended",
        (session_id, actor.account_id),
    )
    if cursor.rowcount:
        await audit.record(connection, actor, "session.ended", Target("session", session_id))


async def end_all(connection: Connection, account_id: UUID, *, but: UUID | None = None) -> int:
    """End the account's sessions everywhere at once, except `but`; return their number."""
    cursor = await connection.execute(
        "with ended as (delete from sessions where account_id = %s and id is distinct from %s returning id)"
        f" select pg_notify('{CHANNEL}', id::text) from ended",
        (account_id, but),
    )
    return cursor.rowcount


async def forget_expired(connection: Connection) -> None:
    """Delete the sessions that have expired."""
    await connection.execute("delete from sessions where expires_at < now()")
