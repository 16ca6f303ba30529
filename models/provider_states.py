"""How the sources of lookups do: the requests that they have left, and which of them fail.

The rows are shared by all processes. A source's row has its breaker, and its bucket if that is its own; the
sources that are asked with one account of the operator's share the bucket in the row `@<account>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Column, DateTime, Text
from sqlmodel import Field, SQLModel

from database import Connection
from settings import Rate

FAILURES_TO_OPEN = 5
OPEN_SECONDS, MOST_OPEN_SECONDS = 30.0, 900.0
"""A breaker opens after so many failures in a row, for so long; each further failure doubles that."""
# While one request tries a source whose breaker was open, the others wait this long.
_PROBE_SECONDS = 10.0
ERROR_WEIGHT = 0.05
"""How much one request weighs in a source's error rate."""
_UNLIMITED = 1e9


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
class Admission:
    """Whether a source may be asked now, and if not, why, and in how many seconds it may."""

    admitted: bool
    reason: Literal["rate_limited", "cooling_down", "auth_failed"] | None = None
    retry_after: float = 0


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


# A request that was under way when the breaker opened, and fails, says nothing new: only the one that tries
# the source again keeps it open for longer.
_ASKED_BEFORE = """coalesce(
    blocked_as = 'cooling_down' and blocked_until > now() + make_interval(secs => %(probe)s), false)"""
_FAIL = f"""
update provider_states
set failures = failures + case when {_ASKED_BEFORE} then 0 else %(counts)s end,
    error_rate = error_rate * (1 - %(weight)s) + %(weight)s,
    blocked_until = case
        when %(block)s::float8 is not null then now() + make_interval(secs => %(block)s::float8)
        when {_ASKED_BEFORE} then blocked_until
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
        "source": source, "counts": 0 if reason == "rate_limited" else 1, "weight": ERROR_WEIGHT,
        "block": block, "reason": reason, "to_open": FAILURES_TO_OPEN, "open": OPEN_SECONDS,
        "most": MOST_OPEN_SECONDS, "probe": _PROBE_SECONDS,
    }  # fmt: skip
    row = await (await connection.execute(_FAIL, values)).fetchone()
    if row is None or row["reason"] is None:
        return Admission(admitted=True)
    return Admission(admitted=False, **row)


async def close(connection: Connection, source: str) -> None:
    """Close the breaker of a source that has answered, if only to say that it does not take a query."""
    await connection.execute(
        "update provider_states set failures = 0, blocked_until = null, blocked_as = null"
        " where source = %s and failures > 0",
        (source,),
    )


async def states(connection: Connection) -> dict[str, dict[str, Any]]:
    """Source → `blocked`, `last_success` and `error_rate` of every source that was asked."""
    cursor = await connection.execute(
        "select source, coalesce(blocked_until > now(), false) as blocked, last_success, error_rate"
        " from provider_states"
    )
    return {row.pop("source"): row for row in await cursor.fetchall()}
