"""Key rotation: values that are stored for good are sealed again after the first root key changes.

Values that are stored for a limited time are left out: cached answers of lookups, idempotency keys and
conversations with the assistant expire, and Temporal's history ends with its workflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.sql import SQL, Composed, Identifier

from database import Connection
from sealing import Keyring, UnsealError

BATCH = 500

_NOBODY = UUID(int=0)

RowKey = tuple[Any, ...]
"""The primary key of a row, after which the next batch starts."""


@dataclass(frozen=True)
class SealedColumn:
    """A column of sealed values.

    Attributes:
        table: the name of the table.
        column: the sealed column.
        key: the columns of its primary key.
        start: a key that sorts before all others.
        purpose: the purpose for which they are sealed.
        context: the context in which they are sealed, with the key's columns in braces.
    """

    table: str
    column: str
    key: tuple[str, ...]
    start: RowKey
    purpose: str
    context: str


@dataclass(frozen=True)
class Batch:
    """The numbers of resealed and unreadable values, and the last key; None after the last batch."""

    resealed: int
    unreadable: int
    last: RowKey | None


CANARY = SealedColumn("root_key_canary", "sealed", ("id",), (0,), "canary", "{id}")
"""The row by which a start recognises the right key; see `models/installation/root_key.py`."""

KEPT = {
    "secrets": SealedColumn(
        "secrets", "sealed", ("account_id", "name"), (_NOBODY, ""), "secrets", "{account_id}/{name}"
    ),
    "ingest_tokens": SealedColumn(
        "automations", "ingest_token_sealed", ("id",), (_NOBODY,), "ingest", "{id}"
    ),
    "webhooks": SealedColumn("endpoints", "sealed", ("id",), (_NOBODY,), "endpoints", "{id}"),
    # The canary is last: a start without the old key is refused until all other values are sealed again.
    "canary": CANARY,
}


async def reseal_batch(connection: Connection, keyring: Keyring, kept: SealedColumn, after: RowKey) -> Batch:
    """Seal up to 500 values after a place again with the first key; call it in a transaction.

    Values that this key has sealed are skipped. Values that no key of the ring opens stay unchanged.
    """
    cursor = await connection.execute(_statement(_FIND, kept), (keyring.header, *after, BATCH))
    rows = await cursor.fetchall()
    changes: list[RowKey] = []
    for row in rows:
        context = kept.context.format(**row)
        try:
            value = keyring.open(kept.purpose, row["sealed"], context)
        except UnsealError:
            continue
        changes.append((keyring.seal(kept.purpose, value, context), *_place(kept, row)))
    if changes:
        await connection.cursor().executemany(_statement(_CHANGE, kept), changes)
    last = _place(kept, rows[-1]) if len(rows) == BATCH else None
    return Batch(len(changes), len(rows) - len(changes), last)


async def sample_sealed(connection: Connection, kept: SealedColumn) -> list[dict[str, Any]]:
    """Return one row for each key that has sealed values here: its primary key, and the value as `sealed`."""
    cursor = await connection.execute(_statement(_SAMPLE, kept))
    return await cursor.fetchall()


def opens(keyring: Keyring, kept: SealedColumn, row: dict[str, Any]) -> bool:
    """Return whether a key of the ring opens the sealed value of a row."""
    try:
        keyring.open(kept.purpose, row["sealed"], kept.context.format(**row))
    except UnsealError:
        return False
    return True


_SAMPLE = (
    "select distinct on (substring({column} for 5)) {key}, {column} as sealed from {table}"
    " where {column} is not null"
)
# Resealing changes no primary key: events for these workflows are accepted meanwhile.
_FIND = (
    "select {key}, {column} as sealed from {table} where substring({column} for 5) <> %s"
    " and ({key}) > ({values}) order by {key} limit %s for no key update"
)
_CHANGE = "update {table} set {column} = %s where ({key}) = ({values})"


def _statement(text: str, kept: SealedColumn) -> Composed:
    return SQL(text).format(  # pyright: ignore[reportArgumentType]
        table=Identifier(kept.table),
        column=Identifier(kept.column),
        key=SQL(", ").join(map(Identifier, kept.key)),
        values=SQL(", ").join([SQL("%s")] * len(kept.key)),
    )


def _place(kept: SealedColumn, row: dict[str, Any]) -> RowKey:
    return tuple(row[name] for name in kept.key)
