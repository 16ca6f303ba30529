"""What all processes know about the sources of lookups: answers kept, requests left, and who is failing.

Kept answers are sealed and found by a keyed hash of the query, so that the table names nobody. They serve
every account: what a source says about a query does not depend on who asks.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Column, DateTime, Index, LargeBinary, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.errors import ModelError
from models.views import View
from sealing import Keyring
from settings import Rate

Status = Literal[
    "ok", "empty", "cached", "skipped", "rejected", "timeout", "rate_limited", "auth_failed", "bad_response",
    "error",
]  # fmt: skip
FAILURES: frozenset[Status] = frozenset(
    {"rejected", "timeout", "rate_limited", "auth_failed", "bad_response", "error"}
)
"""The outcomes after which a source's fields are not known, as opposed to known to be empty.

`rejected`: the source does not take this very query. That tells nothing of how it does for others.
"""

State = Literal["ready", "no_key", "disabled", "cooling_down", "no_data"]

FAILURES_TO_OPEN = 5
OPEN_SECONDS, MOST_OPEN_SECONDS = 30.0, 900.0
"""A breaker opens after so many failures in a row, for so long; each further failure doubles that."""
# While one request tries a source whose breaker was open, the others wait this long.
_PROBE_SECONDS = 10.0
# How much one request weighs in a source's error rate.
_WEIGHT = 0.05
_UNLIMITED = 1e9


class AllProvidersFailed(ModelError):
    """Every source that was asked failed. Nothing is charged, and trying again later makes sense."""

    def __init__(self, providers: list[dict[str, Any]]) -> None:
        super().__init__(
            "all_providers_failed",
            "Every source that was asked failed; try again later.",
            providers=providers,
        )


class NoProvider(ModelError):
    """No source is set up that could answer."""

    def __init__(self, providers: list[dict[str, Any]]) -> None:
        message = "No source is set up for this; GET /api/providers says why."
        super().__init__("no_provider", message, providers=providers)


class ProviderReport(BaseModel):
    """What became of one source in one lookup."""

    name: str = Field(description="The source.")
    status: Status = Field(description="What became of it.")
    ms: int = Field(description="How long it took, in milliseconds.")
    fields: list[str] = Field(description="The dotted fields that it filled.")
    cached: bool = Field(description="Whether its answer was kept from an earlier lookup.")
    stale: bool | None = Field(
        None, description="Whether the kept answer is older than it should be, since the source failed now."
    )
    retry_after: int | None = Field(None, description="In how many seconds it can be asked again.")
    detail: str | None = Field(None, description="Why it was skipped or failed.")


class Block(BaseModel):
    """A part of an answer, with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class LookupAnswer(Block):
    """What every lookup's answer has after the fields of its kind."""

    credits: int = Field(description="What the lookup cost.")
    cached: bool = Field(description="Whether all answers of sources outside were kept from earlier lookups.")
    partial: bool = Field(
        description="Whether a source that is set up failed, was limited or lacks its data."
    )
    providers: list[ProviderReport] = Field(description="Who was asked, and what became of it.")
    sources: dict[str, list[str]] = Field(description="By dotted field, the sources that gave its value.")
    conflicts: dict[str, dict[str, Any]] = Field(
        description="By dotted field, the value of each source, where they differ."
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Move these fields behind the kind's own, where inheritance would put them first."""
        for name in LookupAnswer.model_fields:
            cls.model_fields[name] = cls.model_fields.pop(name)
        cls.model_rebuild(force=True)


class ProviderRow(View):
    """One source of one kind of lookup, as GET /api/providers lists it."""

    name: str = Field(description="The source.")
    kind: str = Field(description="The kind of lookup.")
    state: State = Field(description="Whether it can be asked, and if not, why.")
    fields: list[str] = Field(description="The dotted fields that it can fill.")
    licence: str = Field(description="The licence of its data.")
    attribution: str = Field(description="What is to be said where its data is shown.")
    quota: str | None = Field(None, description="How often it may be asked.")
    dataset_age: int | None = Field(
        None, description="The age of its data on this machine, in seconds; null without such data."
    )
    last_success: datetime | None = Field(None, description="When it last answered; null for never.")
    error_rate: float | None = Field(
        None, description="The share of requests that failed of late, 0 to 1; null where there were none."
    )


class KeptAnswer(SQLModel, table=True):
    """What one source answered to one query."""

    __tablename__ = "lookup_answers"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_lookup_answers_stale_until", "stale_until"),)

    source: str = Field(sa_column=Column(Text, primary_key=True))
    parser_version: int = Field(primary_key=True)
    query_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    fetched_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    stale_until: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


class ProviderState(SQLModel, table=True):
    """The bucket and the breaker of one source. Unlogged: a crash of the database forgets them."""

    __tablename__ = "provider_states"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"prefixes": ["unlogged"], "postgresql_with": {"fillfactor": 50}},)

    source: str = Field(sa_column=Column(Text, primary_key=True))
    tokens: float
    refilled_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    failures: int
    blocked_until: datetime | None = Field(default=None, sa_column=Column(DateTime(timezone=True)))
    blocked_as: str | None = Field(default=None, sa_column=Column(Text))
    last_success: datetime | None = Field(default=None, sa_column=Column(DateTime(timezone=True)))
    error_rate: float


@dataclass(frozen=True)
class Key:
    """Which answer: of one source, read by one version of its parser, to one query."""

    source: str
    parser_version: int
    query_hash: bytes


@dataclass(frozen=True)
class Kept:
    """An answer from the table. Times are Unix seconds."""

    source: str
    sealed: bytes
    fetched_at: float
    expires_at: float
    stale_until: float


@dataclass(frozen=True)
class Admission:
    """Whether a source may be asked now, and if not, why, and in how many seconds it may."""

    admitted: bool
    reason: Literal["rate_limited", "cooling_down", "auth_failed"] | None = None
    retry_after: float = 0


def query_hash(keyring: Keyring, kind: str, query: str) -> bytes:
    """The keyed hash under which answers to `query` are kept."""
    return query_hashes(keyring, kind, query)[0]


def query_hashes(keyring: Keyring, kind: str, query: str) -> list[bytes]:
    """That hash, and those under which answers were kept when an older key of the ring was the first."""
    text = f"{kind}\0{query}".encode()
    return [hmac.digest(key, text, "sha256") for key in keyring.derived("lookups.query")]


async def read(connection: Connection, keys: Sequence[Key]) -> list[Kept]:
    """The kept answers for `keys`, fresh or stale."""
    cursor = await connection.execute(
        "select source, sealed, extract(epoch from fetched_at)::float8 as fetched_at,"
        " extract(epoch from expires_at)::float8 as expires_at,"
        " extract(epoch from stale_until)::float8 as stale_until"
        " from lookup_answers join unnest(%s::text[], %s::int[], %s::bytea[])"
        " as wanted (source, parser_version, query_hash) using (source, parser_version, query_hash)"
        " where stale_until > now()",
        (
            [key.source for key in keys],
            [key.parser_version for key in keys],
            [key.query_hash for key in keys],
        ),
    )
    return [Kept(**row) for row in await cursor.fetchall()]


_KEEP = """
with succeeded as (
    update provider_states
    set failures = 0, blocked_until = null, blocked_as = null, last_success = now(),
        error_rate = error_rate * (1 - %(weight)s)
    where source = %(source)s
)
insert into lookup_answers
    (source, parser_version, query_hash, sealed, fetched_at, expires_at, stale_until)
values (%(source)s, %(parser_version)s, %(query_hash)s, %(sealed)s, now(),
        now() + make_interval(secs => %(ttl)s), now() + make_interval(secs => %(stale)s))
on conflict (source, parser_version, query_hash) do update
set sealed = excluded.sealed, fetched_at = excluded.fetched_at, expires_at = excluded.expires_at,
    stale_until = excluded.stale_until
"""


async def keep(connection: Connection, key: Key, sealed: bytes, *, ttl: float, stale: float) -> None:
    """Keep an answer that just came, and note that its source works.

    Args:
        connection: to the database.
        key: which answer.
        sealed: the answer.
        ttl: seconds for which it counts as fresh.
        stale: seconds for which it may stand in when the source fails; at least `ttl`.
    """
    values = {
        "source": key.source, "parser_version": key.parser_version, "query_hash": key.query_hash,
        "sealed": sealed, "ttl": ttl, "stale": max(ttl, stale), "weight": _WEIGHT,
    }  # fmt: skip
    await connection.execute(_KEEP, values)


# The first half admits and counts in one step, so that no two processes take the same token. After an
# open breaker's time is over it lets one request through and holds the others back for a moment. When the
# condition fails nothing is returned, and the second half explains it from the row.
_ADMIT = """
with refilled as (
    select source, least(%(burst)s, tokens + %(per_second)s *
        greatest(0, extract(epoch from clock_timestamp() - refilled_at)::float8)) as tokens
    from provider_states where source = %(source)s
), admitted as (
    insert into provider_states as s (source, tokens, refilled_at, failures, error_rate)
    values (%(source)s, %(burst)s - 1, clock_timestamp(), 0, 0)
    on conflict (source) do update
    set tokens = least(%(burst)s, s.tokens + %(per_second)s *
            greatest(0, extract(epoch from excluded.refilled_at - s.refilled_at)::float8)) - 1,
        refilled_at = greatest(s.refilled_at, excluded.refilled_at),
        blocked_until = case when s.failures >= %(to_open)s
            then excluded.refilled_at + make_interval(secs => %(probe)s) end,
        blocked_as = case when s.failures >= %(to_open)s then 'cooling_down' end
    where (s.blocked_until is null or s.blocked_until <= excluded.refilled_at)
        and least(%(burst)s, s.tokens + %(per_second)s *
            greatest(0, extract(epoch from excluded.refilled_at - s.refilled_at)::float8)) >= 1
    returning true as admitted
)
select true as admitted, null as reason, 0::float8 as retry_after from admitted
union all
select false, case when s.blocked_until > clock_timestamp() then s.blocked_as else 'rate_limited' end,
    greatest(
        coalesce(extract(epoch from s.blocked_until - clock_timestamp())::float8, 0),
        (1 - r.tokens) / %(per_second)s, 0.001)
from provider_states s join refilled r using (source) where not exists (select from admitted)
"""


async def admit(connection: Connection, source: str, rate: Rate | None) -> Admission:
    """Take a token for one request to `source`, unless its bucket is empty or its breaker open.

    The bucket holds what `rate` allows in its period, and refills evenly over it.
    """
    burst = float(rate.requests) if rate else _UNLIMITED
    values = {
        "source": source, "burst": burst, "per_second": burst / (rate.seconds if rate else 1),
        "to_open": FAILURES_TO_OPEN, "probe": _PROBE_SECONDS,
    }  # fmt: skip
    row = await (await connection.execute(_ADMIT, values)).fetchone()
    if row is None:
        # Others took the whole bucket between the two halves of the very first request.
        return Admission(admitted=False, reason="rate_limited", retry_after=1)
    return Admission(**row)


_FAIL = """
update provider_states
set failures = failures + %(counts)s,
    error_rate = error_rate * (1 - %(weight)s) + %(weight)s,
    blocked_until = case
        when %(block)s::float8 is not null then now() + make_interval(secs => %(block)s::float8)
        when failures + %(counts)s >= %(to_open)s then now() + make_interval(secs =>
            least(%(most)s, %(open)s * power(2, least(failures + %(counts)s - %(to_open)s, 10))))
        end,
    blocked_as = case
        when %(block)s::float8 is not null then %(reason)s
        when failures + %(counts)s >= %(to_open)s then 'cooling_down'
        end
where source = %(source)s
returning blocked_as as reason,
    coalesce(extract(epoch from blocked_until - now())::float8, 0) as retry_after
"""


async def fail(
    connection: Connection,
    source: str,
    *,
    reason: Literal["rate_limited", "auth_failed"] | None = None,
    block: float | None = None,
) -> Admission:
    """Note that a request to `source` failed; after five in a row its breaker opens.

    Args:
        connection: to the database.
        source: which one.
        reason: a failure after which asking again is no use for `block` seconds.
        block: how long; given together with `reason`.

    Returns:
        Whether it may be asked again at once, and if not, in how many seconds.
    """
    values = {
        "source": source, "counts": 0 if reason == "rate_limited" else 1, "weight": _WEIGHT, "block": block,
        "reason": reason, "to_open": FAILURES_TO_OPEN, "open": OPEN_SECONDS, "most": MOST_OPEN_SECONDS,
    }  # fmt: skip
    row = await (await connection.execute(_FAIL, values)).fetchone()
    if row is None or row["reason"] is None:
        return Admission(admitted=True)
    return Admission(admitted=False, **row)


async def states(connection: Connection) -> dict[str, dict[str, Any]]:
    """Source → `blocked`, `last_success` and `error_rate` of every source that was asked."""
    cursor = await connection.execute(
        "select source, coalesce(blocked_until > now(), false) as blocked, last_success, error_rate"
        " from provider_states"
    )
    return {row.pop("source"): row for row in await cursor.fetchall()}


async def purge(connection: Connection, limit: int = 5000) -> int:
    """Delete kept answers that can serve nobody any more, up to `limit`; returns how many there were."""
    cursor = await connection.execute(
        "delete from lookup_answers where ctid = any(array("
        "select ctid from lookup_answers where stale_until <= now() order by stale_until limit %s"
        " for update skip locked))",
        (limit,),
    )
    return cursor.rowcount
