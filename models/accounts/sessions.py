"""Sessions, by a signed token or a browser's cookie: each is checked against its row, and ended at once."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
from sqlalchemy import Column, DateTime, ForeignKey, Index, LargeBinary, Text
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
_ID_BYTES, _SECRET_BYTES = 16, 32
_MOST_USER_AGENT = 300
PROOF_MINUTES = 5
"""The time for which a password counts as given lately in a browser's session."""


class Session(SQLModel, table=True):
    """A login that has not ended."""

    __tablename__ = "sessions"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_sessions_account_id", "account_id"),)

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    ip: str | None = Field(sa_type=Text)
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    cookie_hash: bytes | None = Field(sa_column=Column(LargeBinary))
    proven_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    user_agent: str | None = Field(sa_type=Text)


@dataclass(frozen=True)
class Token:
    """The token of a new session, and the time when it expires."""

    session_id: UUID
    token: str
    expires_at: datetime


@dataclass(frozen=True)
class Cookie:
    """The cookie of a browser's new session: its value is stored as a hash alone."""

    session_id: UUID
    value: str
    expires_at: datetime


@dataclass(frozen=True)
class BrowserSession:
    """A browser's session that has not ended.

    Attributes:
        proven_until: until when its password counts as given lately; in the past if it does not.
    """

    id: UUID
    account_id: UUID
    email: str
    expires_at: datetime
    proven_until: datetime


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


async def begin_in_browser(
    connection: Connection, account_id: UUID, hours: int, *, ip: str | None, user_agent: str
) -> Cookie:
    """Begin a session of this many hours whose credential is a cookie.

    Args:
        connection: in a transaction.
        account_id: whose session it is.
        hours: how long it lasts.
        ip: the client's address.
        user_agent: the browser by its own word, to be recognised in a list.
    """
    session_id, now = new_id(), datetime.now(UTC).replace(microsecond=0)
    secret = session_id.bytes + secrets.token_bytes(_SECRET_BYTES)
    expires_at = now + timedelta(hours=hours)
    await connection.execute(
        "insert into sessions"
        " (id, account_id, ip, created_at, expires_at, cookie_hash, proven_at, user_agent)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s)",
        (session_id, account_id, ip, now, expires_at, hashlib.sha256(secret).digest(), now,
         user_agent.replace("\x00", "")[:_MOST_USER_AGENT]),
    )  # fmt: skip
    return Cookie(session_id, base64.urlsafe_b64encode(secret).decode().rstrip("="), expires_at)


async def find_by_cookie(connection: Connection, value: str) -> BrowserSession | None:
    """Return the session of a cookie, if it has not ended."""
    secret = decode_base64url(value)
    if secret is None or len(secret) != _ID_BYTES + _SECRET_BYTES:
        return None
    cursor = await connection.execute(
        "select s.id, s.account_id, a.email, s.expires_at,"
        " coalesce(s.proven_at, s.created_at - interval '1 day') + make_interval(mins => %s) as proven_until"
        " from sessions s join accounts a on a.id = s.account_id"
        " where s.id = %s and s.cookie_hash = %s and s.expires_at > now()",
        (PROOF_MINUTES, UUID(bytes=secret[:_ID_BYTES]), hashlib.sha256(secret).digest()),
    )
    row = await cursor.fetchone()
    return BrowserSession(**row) if row else None


async def prove(connection: Connection, session_id: UUID) -> None:
    """Record that the password was given just now, and let all processes read the session anew."""
    await connection.execute(
        "with proven as (update sessions set proven_at = now() where id = %s returning id)"
        f" select pg_notify('{CHANNEL}', id::text) from proven",
        (session_id,),
    )


async def list_all(connection: Connection, account_id: UUID) -> list[dict[str, Any]]:
    """Return the account's sessions that have not ended, newest first."""
    cursor = await connection.execute(
        "select id, case when cookie_hash is null then 'token' else 'browser' end as kind, ip, user_agent,"
        " created_at, expires_at from sessions where account_id = %s and expires_at > now()"
        " order by created_at desc, id desc",
        (account_id,),
    )
    return await cursor.fetchall()


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


async def end(connection: Connection, actor: Actor, session_id: UUID) -> bool:
    """End a session everywhere at once, and return whether there was one; call it in a transaction."""
    cursor = await connection.execute(
        "with ended as (delete from sessions where id = %s and account_id = %s returning id)"
        f" select pg_notify('{CHANNEL}', id::text) from ended",
        (session_id, actor.account_id),
    )
    if cursor.rowcount:
        await audit.record(connection, actor, "session.ended", Target("session", session_id))
    return bool(cursor.rowcount)


async def end_others(connection: Connection, actor: Actor) -> None:
    """End all sessions of the actor's account but the actor's own; call it in a transaction."""
    if await end_all(connection, actor.account_id, but=actor.id):
        await audit.record(connection, actor, "sessions.ended", Target("account", actor.account_id))


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
