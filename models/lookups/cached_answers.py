"""Cached answers of sources, sealed, under a keyed hash of the query: the table contains no names.

Cached answers serve every account: what a source answers to a query does not depend on the account.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, DateTime, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.lookups.provider_states import ERROR_WEIGHT
from sealing import Keyring


class CachedAnswerRow(SQLModel, table=True):
    """The cached answer of one source to one query."""

    __tablename__ = "lookup_answers"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_lookup_answers_stale_until", "stale_until"),)

    source: str = Field(sa_column=Column(Text, primary_key=True))
    parser_version: int = Field(primary_key=True)
    query_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    fetched_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    stale_until: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class AnswerKey:
    """The key of an answer: its source, the version of its parser, and its query."""

    source: str
    parser_version: int
    query_hash: bytes


@dataclass(frozen=True)
class StoredAnswer:
    """A cached answer from the table. Times are Unix seconds."""

    key: AnswerKey
    sealed: bytes
    fetched_at: float
    expires_at: float
    stale_until: float


def query_hash(keyring: Keyring, kind: str, query: str) -> bytes:
    """Return the keyed hash under which answers to `query` are stored."""
    return query_hashes(keyring, kind, query)[0]


def query_hashes(keyring: Keyring, kind: str, query: str) -> list[bytes]:
    """Return the hashes of `query` under each key of the ring, with the first key's hash first."""
    text = f"{kind}\0{query}".encode()
    return [hmac.digest(key, text, "sha256") for key in keyring.derive_keys("lookups.query")]


_READ = """
select source, parser_version, query_hash, sealed, extract(epoch from fetched_at)::float8 as fetched_at,
    extract(epoch from expires_at)::float8 as expires_at,
    extract(epoch from stale_until)::float8 as stale_until
from lookup_answers join unnest(%s::text[], %s::int[], %s::bytea[])
    as wanted (source, parser_version, query_hash) using (source, parser_version, query_hash)
where stale_until > now()
union all
select null, null, identifier_hash, null, null, null, null from suppressions where identifier_hash = any(%s)
"""


async def load_answers(
    connection: Connection, keys: Sequence[AnswerKey], persons: Sequence[bytes] = ()
) -> tuple[list[StoredAnswer], set[bytes]]:
    """Return the cached answers for `keys`, fresh or stale, and the suppressed hashes of `persons`."""
    cursor = await connection.execute(
        _READ,
        (
            [key.source for key in keys],
            [key.parser_version for key in keys],
            [key.query_hash for key in keys],
            list(persons),
        ),
    )
    kept: list[StoredAnswer] = []
    suppressed: set[bytes] = set()
    for row in await cursor.fetchall():
        if row["source"] is None:
            suppressed.add(row["query_hash"])
        else:
            key = AnswerKey(row.pop("source"), row.pop("parser_version"), row.pop("query_hash"))
            kept.append(StoredAnswer(key, **row))
    return kept, suppressed


# Rows are locked in the order of their names, as in sql/admit_request_2.sql.
_KEEP = """
with locked as materialized (
    select source from provider_states where source in (%(source)s, %(bucket)s) order by source for update
), succeeded as (
    update provider_states
    set failures = 0, refusals = 0, last_success = now(),
        blocked_until = case when blocked_as in ('rate_limited', 'refusing') then blocked_until end,
        blocked_as = case when blocked_as in ('rate_limited', 'refusing') then blocked_as end,
        error_rate = error_rate * (1 - %(weight)s), limited_rate = limited_rate * (1 - %(weight)s)
    where source in (select source from locked)
)
insert into lookup_answers
    (source, parser_version, query_hash, sealed, fetched_at, expires_at, stale_until)
values (%(source)s, %(parser_version)s, %(query_hash)s, %(sealed)s, now(),
        now() + make_interval(secs => %(ttl)s), now() + make_interval(secs => %(stale)s))
on conflict (source, parser_version, query_hash) do update
set sealed = excluded.sealed, fetched_at = excluded.fetched_at, expires_at = excluded.expires_at,
    stale_until = excluded.stale_until
"""


async def keep(
    connection: Connection, key: AnswerKey, sealed: bytes, *, bucket: str, ttl: float, stale: float
) -> None:
    """Store an answer that just came, and record that its source works.

    Args:
        connection: to the database.
        key: the key of the answer.
        sealed: the answer.
        bucket: the source's own or that of its account at the vendor, as in `admit`.
        ttl: seconds for which the answer is fresh.
        stale: seconds for which it may be used when the source fails; at least `ttl`.
    """
    values = {
        "source": key.source, "parser_version": key.parser_version, "query_hash": key.query_hash,
        "bucket": bucket, "sealed": sealed, "ttl": ttl, "stale": max(ttl, stale), "weight": ERROR_WEIGHT,
    }  # fmt: skip
    await connection.execute(_KEEP, values)


async def purge(connection: Connection, limit: int = 5000) -> int:
    """Delete up to `limit` cached answers that are too old even as stale ones; return their number."""
    cursor = await connection.execute(
        "delete from lookup_answers where ctid = any(array("
        "select ctid from lookup_answers where stale_until <= now() order by stale_until limit %s"
        " for update skip locked))",
        (limit,),
    )
    return cursor.rowcount
