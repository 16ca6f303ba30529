"""The suppression list: people that are never looked up, and the erasure of stored data about them.

The list stores keyed hashes instead of names. A hash is found under every key of the keyring: when a key is
removed from the ring, the entries made under it are lost.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, DateTime, LargeBinary
from sqlmodel import Field, SQLModel

from database import Connection
from models.chat import erasure
from models.events import events
from models.lookups.cached_answers import query_hashes
from sealing import Keyring

# Queries other than phone lookups may contain phone numbers with such punctuation.
_WITHOUT_PUNCTUATION = str.maketrans("", "", " ().-/")


class Suppression(SQLModel, table=True):
    """One suppressed e-mail address or phone number."""

    __tablename__ = "suppressions"  # pyright: ignore[reportAssignmentType]

    identifier_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class ErasedAnswer:
    """A cached answer that was deleted: its source and the time when it was fetched."""

    source: str
    fetched_at: datetime


def identifier(text: str) -> str | None:
    """Return the e-mail address or phone number in a normalised query, or None if it is neither."""
    number = text.translate(_WITHOUT_PUNCTUATION)
    if number.startswith("+") and number[1:].isdecimal():
        return number
    local, at, domain = text.rpartition("@")
    return text.lower() if local and at and "." in domain and " " not in text else None


async def add(connection: Connection, keyring: Keyring, identifier: str) -> bool:
    """Suppress a person; return False if they were suppressed already."""
    if await contains(connection, keyring, identifier):
        return False
    cursor = await connection.execute(
        "insert into suppressions (identifier_hash, created_at) values (%s, now()) on conflict do nothing",
        (identifier_hashes(keyring, identifier)[0],),
    )
    return cursor.rowcount == 1


async def remove(connection: Connection, keyring: Keyring, identifier: str) -> bool:
    """End the suppression of a person; return False if they were not suppressed."""
    cursor = await connection.execute(
        "delete from suppressions where identifier_hash = any(%s)", (identifier_hashes(keyring, identifier),)
    )
    return cursor.rowcount > 0


async def contains(connection: Connection, keyring: Keyring, identifier: str) -> bool:
    """Return whether the person is suppressed."""
    cursor = await connection.execute(
        "select from suppressions where identifier_hash = any(%s)", (identifier_hashes(keyring, identifier),)
    )
    return await cursor.fetchone() is not None


async def erase(
    connection: Connection, keyring: Keyring, kinds: Iterable[str], identifier: str
) -> list[ErasedAnswer]:
    """Delete the cached answers to lookups of the person, of any of `kinds`, and the events about them.

    Conversations with the assistant that name the person are deleted, too.
    """
    await events.erase(connection, identifier)
    await erasure.erase(connection, keyring, identifier)
    hashes = [digest for kind in kinds for digest in query_hashes(keyring, kind, identifier)]
    cursor = await connection.execute(
        "with erased as (delete from lookup_answers where query_hash = any(%s) returning source, fetched_at)"
        " select source, fetched_at from erased order by source, fetched_at",
        (hashes,),
    )
    return [ErasedAnswer(**row) for row in await cursor.fetchall()]


def identifier_hashes(keyring: Keyring, identifier: str) -> list[bytes]:
    """Return the keyed hashes under which a person may be listed, with the newest key's first."""
    keys = keyring.derive_keys("persons.suppressed")
    return [hmac.digest(key, identifier.encode(), "sha256") for key in keys]
