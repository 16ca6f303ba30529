"""The suppression list: people about whom nothing is looked up, and the erasure of what is kept of them.

The list holds keyed hashes, so that it names nobody. A hash is found under every key of the keyring: a key
that is taken out of the ring takes with it the entries that were made under it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, DateTime, LargeBinary
from sqlmodel import Field, SQLModel

from database import Connection
from models.events import events
from models.lookups.cached_answers import query_hashes
from sealing import Keyring

# A phone number may be written with them anywhere but where it is looked up as one.
_WITHOUT_PUNCTUATION = str.maketrans("", "", " ().-/")


class Suppression(SQLModel, table=True):
    """One e-mail address or phone number."""

    __tablename__ = "suppressions"  # pyright: ignore[reportAssignmentType]

    identifier_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class Erased:
    """A kept answer that was deleted: what one source had said, and when."""

    source: str
    fetched_at: datetime


def identifier(text: str) -> str | None:
    """The e-mail address or phone number that a normalised query is, or None if it is neither."""
    number = text.translate(_WITHOUT_PUNCTUATION)
    if number.startswith("+") and number[1:].isdecimal():
        return number
    local, at, domain = text.rpartition("@")
    return text.lower() if local and at and "." in domain and " " not in text else None


async def add(connection: Connection, keyring: Keyring, identifier: str) -> bool:
    """Suppress; returns False if that was so already."""
    if await contains(connection, keyring, identifier):
        return False
    cursor = await connection.execute(
        "insert into suppressions (identifier_hash, created_at) values (%s, now()) on conflict do nothing",
        (identifier_hashes(keyring, identifier)[0],),
    )
    return cursor.rowcount == 1


async def remove(connection: Connection, keyring: Keyring, identifier: str) -> bool:
    """Suppress no longer; returns False if that was so already."""
    cursor = await connection.execute(
        "delete from suppressions where identifier_hash = any(%s)", (identifier_hashes(keyring, identifier),)
    )
    return cursor.rowcount > 0


async def contains(connection: Connection, keyring: Keyring, identifier: str) -> bool:
    """Whether the person is suppressed."""
    cursor = await connection.execute(
        "select from suppressions where identifier_hash = any(%s)", (identifier_hashes(keyring, identifier),)
    )
    return await cursor.fetchone() is not None


async def erase(
    connection: Connection, keyring: Keyring, kinds: Iterable[str], identifier: str
) -> list[Erased]:
    """Delete what sources have answered to lookups of the person, of any of `kinds`, and told of those."""
    await events.erase(connection, identifier)
    hashes = [digest for kind in kinds for digest in query_hashes(keyring, kind, identifier)]
    cursor = await connection.execute(
        "with erased as (delete from lookup_answers where query_hash = any(%s) returning source, fetched_at)"
        " select source, fetched_at from erased order by source, fetched_at",
        (hashes,),
    )
    return [Erased(**row) for row in await cursor.fetchall()]


def identifier_hashes(keyring: Keyring, identifier: str) -> list[bytes]:
    """The keyed hashes under which a person may be in the list; the newest key's first."""
    keys = keyring.derived("persons.suppressed")
    return [hmac.digest(key, identifier.encode(), "sha256") for key in keys]
