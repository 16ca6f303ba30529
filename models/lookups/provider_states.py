"""The state of the sources of lookups: failing, over their limits, or working.

All processes share the rows. A source's row has its breaker. If several sources use one account at a vendor,
the vendor's limits on that account are in the row `@<account>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Column, DateTime, Integer, Text
from sqlmodel import Field, SQLModel

from database import Connection

FAILURES_TO_OPEN = 5
OPEN_SECONDS, MOST_OPEN_SECONDS = 30.0, 900.0
"""A breaker opens after this many failures in a row, for this long; each further failure doubles the time."""
PROBE_SECONDS = 10.0
"""While one request tries a source whose breaker was open, the others wait this long."""
FIRST_REFUSAL_SECONDS, MOST_REFUSED_SECONDS = 60.0, 3600.0
"""A source that refuses requests as too many, without a time, is not asked for this long.

Each further refusal in a row doubles the time. After the longest time no caller waits for it any more.
"""
ERROR_WEIGHT = 0.05
"""The weight of one request in the rates of a source."""


class ProviderState(SQLModel, table=True):
    """The breaker of one source, and its recent rates.

    The table is unlogged: a crash of the database empties it.

    Attributes:
        error_rate: the share of requests that failed. A limited request did not fail.
        limited_rate: the share of requests that were refused as too many, by the source or by its windows.
        refusals: the number of requests in a row that it refused as too many.
    """

    __tablename__ = "provider_states"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"prefixes": ["unlogged"], "postgresql_with": {"fillfactor": 50}},)

    source: str = Field(sa_column=Column(Text, primary_key=True))
    failures: int
    blocked_until: datetime | None = Field(default=None, sa_column=Column(DateTime(timezone=True)))
    blocked_as: str | None = Field(default=None, sa_column=Column(Text))
    last_success: datetime | None = Field(default=None, sa_column=Column(DateTime(timezone=True)))
    error_rate: float
    limited_rate: float
    refusals: int = Field(default=0, sa_column=Column(Integer, nullable=False, server_default="0"))


@dataclass(frozen=True)
class Admission:
    """The decision whether a source may be asked now; if not, the reason and the seconds to wait.

    Attributes:
        reason: `refusing` is a source that refused again and again, even after long pauses.
        quota: whether the source's windows have no room for this caller; they may have for others.
    """

    admitted: bool
    reason: Literal["rate_limited", "refusing", "cooling_down", "auth_failed"] | None = None
    retry_after: float = 0
    quota: bool = False


# A request that was under way when the breaker opened and then fails is no news: only the request that tries
# the source again keeps it open for longer.
_ASKED_BEFORE = """coalesce(
    blocked_as = 'cooling_down' and blocked_until > now() + make_interval(secs => %(probe)s), false)"""
_RATES = """
    error_rate = error_rate * (1 - %(weight)s) + case when %(limited)s then 0 else %(weight)s end,
    limited_rate = limited_rate * (1 - %(weight)s) + case when %(limited)s then %(weight)s else 0 end"""
# Rows are locked in the order of their names, as in sql/admit_request_2.sql. A refusal during a pause belongs
# to an earlier request: it does not count as a further refusal. The statement may have begun, and waited for
# the row, before the one that opened the breaker: the seconds that are left are counted from its answer.
_FAIL = f"""
with locked as materialized (
    select source, refusals + (%(limited)s and not coalesce(
        blocked_as in ('rate_limited', 'refusing') and blocked_until > now(), false))::int as refused
    from provider_states where source in (%(source)s, %(row)s) order by source for update
), counted as (
    update provider_states set {_RATES}
    where source in (select source from locked) and source <> %(row)s
), pauses as (
    select source, refused, least(%(longest)s, power(2, least(refused - 1, 20))
        * case when %(block)s::float8 is null then %(first)s else 1 end) as pause from locked
)
update provider_states p
set failures = failures + case when {_ASKED_BEFORE} then 0 else %(counts)s end, {_RATES},
    refusals = refused,
    blocked_until = case
        when %(limited)s then greatest(
            blocked_until, now() + make_interval(secs => greatest(%(block)s::float8, pause)))
        when %(block)s::float8 is not null then now() + make_interval(secs => %(block)s::float8)
        when {_ASKED_BEFORE} then blocked_until
        when failures + %(counts)s >= %(to_open)s then now() + make_interval(secs =>
            least(%(most)s, %(open)s * power(2, least(failures + %(counts)s - %(to_open)s, 10))))
        end,
    blocked_as = case
        when %(limited)s and pause >= %(longest)s then 'refusing'
        when %(limited)s or %(block)s::float8 is not null then %(reason)s
        when failures + %(counts)s >= %(to_open)s then 'cooling_down'
        end
from pauses where p.source = %(row)s and pauses.source = p.source
returning blocked_as as reason,
    coalesce(extract(epoch from blocked_until - clock_timestamp())::float8, 0) as retry_after
"""


async def fail(
    connection: Connection,
    source: str,
    *,
    bucket: str | None = None,
    reason: Literal["rate_limited", "auth_failed"] | None = None,
    block: float | None = None,
) -> Admission:
    """Record that a request to `source` failed; after five failures in a row its breaker opens.

    Args:
        connection: to the database.
        source: the source.
        bucket: the account's row, if the failure concerns the account; it is blocked instead of the source.
        reason: the kind of a failure after which requests are useless for a while.
        block: the pause in seconds; None for `rate_limited` if the source names no time.

    Returns:
        Whether it may be asked again at once, and if not, the seconds to wait.
    """
    values = {
        "source": source, "row": bucket or source, "limited": reason == "rate_limited",
        "counts": 0 if reason == "rate_limited" else 1, "weight": ERROR_WEIGHT,
        "block": block, "reason": reason, "to_open": FAILURES_TO_OPEN, "open": OPEN_SECONDS,
        "most": MOST_OPEN_SECONDS, "probe": PROBE_SECONDS, "first": FIRST_REFUSAL_SECONDS,
        "longest": MOST_REFUSED_SECONDS,
    }  # fmt: skip
    row = await (await connection.execute(_FAIL, values)).fetchone()
    if row is None or row["reason"] is None:
        return Admission(admitted=True)
    return Admission(admitted=False, **row)


async def close(connection: Connection, source: str, bucket: str) -> None:
    """Close the breaker of a source that has answered, even if it only rejected the query."""
    await connection.execute(
        "with locked as materialized (select source from provider_states"
        " where source in (%s, %s) and failures + refusals > 0 order by source for update)"
        " update provider_states set failures = 0, refusals = 0, blocked_until = null,"
        " blocked_as = null where source in (select source from locked)",
        (source, bucket),
    )


async def load_states(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return `blocked`, `last_success`, `error_rate` and `limited_rate` of each source that was asked."""
    cursor = await connection.execute(
        "select source, coalesce(blocked_until > now(), false) as blocked, last_success, error_rate,"
        " limited_rate from provider_states"
    )
    return {row.pop("source"): row for row in await cursor.fetchall()}
