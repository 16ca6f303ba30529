"""API keys: `vedette_live_` and 32 base62 characters, 26 of them random and 6 their checksum.

Only a hash is stored. By the checksum we, and scanners of leaked secrets, can recognise a key without asking
the database.
"""

from __future__ import annotations

import hashlib
import secrets
import string
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import ARRAY, BigInteger, Column, DateTime, ForeignKey, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.accounts.sessions import CHANNEL
from models.audit import Actor, Target
from models.errors import Conflict, FieldError, Forbidden, Invalid, NotFound
from models.events import events
from models.events.event_data import KeyCreated, KeyRevoked
from models.identifiers import new_id

Scope = Literal["lookups", "monitors", "lists", "workflows", "webhooks", "bulk", "credits", "keys"]

ALL_SCOPES: frozenset[Scope] = frozenset(get_args(Scope))
DEFAULT_SCOPES: frozenset[Scope] = ALL_SCOPES - {"keys"}
PREFIX = "vedette_live_"
MAX_KEYS = 1000

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_LENGTH, _CHECKSUM_LENGTH = 26, 6


class KeyRow(SQLModel, table=True):
    """An API key."""

    __tablename__ = "keys"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_keys_account_id_id", "account_id", "id"),
        # Its counters change every second: room on the page keeps these updates out of the indexes.
        {"postgresql_with": {"fillfactor": 70}},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    name: str = Field(sa_type=Text)
    hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    preview: str = Field(sa_type=Text)
    scopes: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    total_requests: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    credits_used: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    last_used: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    expires_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    revoked_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class Key(BaseModel, frozen=True):
    """A key as the API shows it: never its secret."""

    id: UUID = Field(description="The key's id.")
    name: str = Field(description="What the key is for.")
    key_preview: str = Field(description="Its beginning and its last four characters.")
    scopes: list[Scope] = Field(description="What it may do.")
    total_requests: int = Field(description="How many requests were made with it.")
    credits_used: int = Field(description="How many credits were spent with it.")
    created_at: datetime = Field(description="When it was made.")
    last_used: datetime | None = Field(description="When it was last used; null for never.")
    expires_at: datetime | None = Field(description="When it ends by itself; null for never.")
    revoked_at: datetime | None = Field(description="When it was revoked; null while it works.")


@dataclass(frozen=True)
class LiveKey:
    """A key that is valid now."""

    id: UUID
    account_id: UUID
    name: str
    scopes: frozenset[str]
    expires_at: datetime | None


@dataclass(frozen=True)
class Bounds:
    """The limits of a key that creates or manages other keys: they cannot do more than it can.

    Attributes:
        scopes: the scopes that it has.
        expires_at: when it expires.
    """

    scopes: frozenset[str]
    expires_at: datetime | None

    def scopes_of(self, asked: Iterable[Scope] | None) -> frozenset[Scope]:
        """Return the scopes of a new key: those asked for, or the default scopes that this key has.

        Raises:
            Forbidden: this key lacks one of them.
            Invalid: none is asked for, and this key has no default scope.
        """
        scopes = DEFAULT_SCOPES & self.scopes if asked is None else frozenset(asked)
        if not scopes <= self.scopes:
            raise Forbidden("insufficient_scope", "A key cannot give a scope that it does not have.")
        if not scopes:
            message = "Name at least one scope; this key has none of those that are given by default."
            raise Invalid([FieldError("/scopes", "required", message)])
        return scopes

    def end_of(self, asked: datetime | None) -> datetime | None:
        """Return when a new key expires: as asked, or else together with this key.

        Raises:
            Invalid: the time is in the past, or after the end of this key.
        """
        if asked is None:
            return self.expires_at
        if asked <= datetime.now(UTC):
            raise Invalid([FieldError("/expires_at", "not_in_future", "Must be in the future.")])
        if self.expires_at is not None and asked > self.expires_at:
            end = self.expires_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
            message = f"Must not be after {end}, when the key that creates it ends."
            raise Invalid([FieldError("/expires_at", "later_than_parent", message)])
        return asked


def new_secret() -> str:
    """Return a new key: 155 random bits and their checksum."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return PREFIX + body + _checksum(body)


def is_well_formed(text: str) -> bool:
    """Return whether `text` can be one of our keys: prefix, length and checksum match."""
    body = text[len(PREFIX) : len(PREFIX) + _RANDOM_LENGTH]
    return text.isascii() and text == PREFIX + body + _checksum(body) and len(body) == _RANDOM_LENGTH


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


async def create_key(
    connection: Connection, actor: Actor, name: str, scopes: Iterable[Scope], expires_at: datetime | None
) -> tuple[Key, str]:
    """Create a key; call it in a transaction.

    Args:
        connection: inside a transaction.
        actor: the owner of the key, and its creator.
        name: a name for people.
        scopes: the scopes of the key.
        expires_at: when it expires.

    Returns:
        The key, and its secret, which is not stored.

    Raises:
        Conflict: the account has 1,000 keys.
    """
    count = await connection.execute(
        "select count(*)::int as n from keys where account_id = %s", (actor.account_id,)
    )
    if cast(dict[str, int], await count.fetchone())["n"] >= MAX_KEYS:
        raise Conflict("too_many_keys", f"An account has at most {MAX_KEYS} keys; delete some for good.")
    secret = new_secret()
    cursor = await connection.execute(
        "insert into keys (id, account_id, name, hash, preview, scopes, created_at, expires_at)"
        " values (%s, %s, %s, %s, %s, %s, now(), %s) returning *",
        (
            new_id(), actor.account_id, name, _hash(secret), f"{PREFIX}…{secret[-4:]}", sorted(scopes),
            expires_at,
        ),
    )  # fmt: skip
    key = _key(cast(dict[str, Any], await cursor.fetchone()))
    changes = {"name": name, "scopes": key.scopes, "expires_at": expires_at and expires_at.isoformat()}
    await audit.record(connection, actor, "key.created", Target("key", key.id, name), changes)
    told = KeyCreated(
        key_id=key.id, name=name, key_preview=key.key_preview, scopes=list(key.scopes), expires_at=expires_at
    )
    await events.emit(connection, actor.account_id, told)
    return key, secret


async def list_keys(connection: Connection, account_id: UUID, within: frozenset[str]) -> list[Key]:
    """Return the account's keys whose scopes are all `within`, newest first, including revoked keys."""
    cursor = await connection.execute(
        "select * from keys where account_id = %s and scopes <@ %s order by id desc",
        (account_id, sorted(within)),
    )
    return [_key(row) for row in await cursor.fetchall()]


async def revoke(
    connection: Connection, actor: Actor, key_id: UUID, within: frozenset[str], *, permanent: bool = False
) -> None:
    """Revoke a key everywhere at once, and delete it if `permanent`; call it in a transaction.

    The notification is sent in the transaction, unlike those of the hot path: a revocation is rare, and must
    not be lost between commit and notification.

    Raises:
        NotFound: the key is unknown, or another account's.
        Forbidden: the key has a scope that is not `within`.
    """
    cursor = await connection.execute(
        "select name, preview, scopes, revoked_at from keys where id = %s and account_id = %s for update",
        (key_id, actor.account_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("key")
    if not within.issuperset(row["scopes"]):
        raise Forbidden("insufficient_scope", "A key cannot end one that has a scope which it lacks.")
    change = "delete from keys" if permanent else "update keys set revoked_at = coalesce(revoked_at, now())"
    await connection.execute(f"{change} where id = %s and account_id = %s", (key_id, actor.account_id))
    await connection.execute("select pg_notify(%s, %s)", (CHANNEL, str(key_id)))
    action = "key.deleted" if permanent else "key.revoked"
    await audit.record(connection, actor, action, Target("key", key_id, row["name"]))
    if row["revoked_at"] is None:
        told = KeyRevoked(key_id=key_id, name=row["name"], key_preview=row["preview"], permanent=permanent)
        await events.emit(connection, actor.account_id, told)


async def find_live(connection: Connection, secret: str) -> LiveKey | None:
    """Return the key with this secret, unless it is revoked or expired."""
    cursor = await connection.execute(
        "select id, account_id, name, scopes, expires_at from keys"
        " where hash = %s and revoked_at is null and (expires_at is null or expires_at > now())",
        (_hash(secret),),
    )
    row = await cursor.fetchone()
    return LiveKey(scopes=frozenset(row.pop("scopes")), **row) if row else None


async def find_owner(connection: Connection, key_id: UUID) -> UUID | None:
    """Return the account that owns the key."""
    cursor = await connection.execute("select account_id from keys where id = %s", (key_id,))
    row = await cursor.fetchone()
    return row["account_id"] if row else None


async def count_use(connection: Connection, uses: Mapping[UUID, tuple[int, datetime]]) -> None:
    """Add to the keys' counters: for each key the number of requests and the time of the last one."""
    await connection.execute(
        "update keys k set total_requests = k.total_requests + u.n,"
        " last_used = greatest(k.last_used, u.at)"
        " from (select * from unnest(%s::uuid[], %s::bigint[], %s::timestamptz[]) as u(id, n, at)"
        " order by id) u where k.id = u.id",
        (list(uses), [count for count, _ in uses.values()], [at for _, at in uses.values()]),
    )


def _key(row: dict[str, Any]) -> Key:
    return Key(key_preview=row["preview"], **{name: row[name] for name in Key.model_fields if name in row})
