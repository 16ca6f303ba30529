"""The quotas of sources: request windows that all processes share, and the turns of waiting callers.

Any window of the given length admits at most its number of requests; sql/count_request_1.sql describes the
log. All windows of a bucket bind. A bucket belongs to a source, or to the account at a vendor that it uses.
The windows' table is logged: a crash of the database must not make room for another day's requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Column, DateTime, Integer, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection
from models.lookups.provider_states import ERROR_WEIGHT, FAILURES_TO_OPEN, PROBE_SECONDS, Admission
from settings import Rate


class SourceWindow(SQLModel, table=True):
    """The log of one window of one bucket.

    Attributes:
        moments: when requests were admitted, ascending: the moments themselves, or the ends of their cells.
        totals: for each moment, the number of requests admitted until then.
        forgotten: the number of requests that have left the log because they are older than the window.
    """

    __tablename__ = "source_windows"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    bucket: str = Field(sa_column=Column(Text, primary_key=True))
    seconds: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    moments: list[datetime] = Field(sa_column=Column(ARRAY(DateTime(timezone=True)), nullable=False))
    totals: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False))
    forgotten: int = Field(sa_column=Column(BigInteger, nullable=False))


class SourceTurn(SQLModel, table=True):
    """The turn of one account that waits for a bucket; sql/admit_request_2.sql describes turns.

    There is a row only while the account waits. The table is unlogged: a crash of the database resets the
    turns.
    """

    __tablename__ = "source_turns"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"prefixes": ["unlogged"], "postgresql_with": {"fillfactor": 50}},)

    bucket: str = Field(sa_column=Column(Text, primary_key=True))
    account_id: UUID = Field(primary_key=True)
    turn: int = Field(sa_column=Column(BigInteger, nullable=False))
    since: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    ends_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class WindowUse:
    """The use of a window: the requests in it, and the time when the oldest leaves it."""

    used: int
    resets_at: datetime | None


def share_of_waiting(rate: Rate) -> int:
    """Return the requests of a window that waiting callers may use: four fifths, and at least one."""
    return max(1, rate.requests * 4 // 5)


async def admit(
    connection: Connection,
    source: str,
    bucket: str,
    rates: Sequence[Rate],
    account_id: UUID | None = None,
    now: datetime | None = None,
) -> Admission:
    """Count one request to `source`, unless a window of its bucket is full or the source is blocked.

    Args:
        connection: any, outside of a transaction.
        source: the source.
        bucket: the bucket whose windows count.
        rates: the windows; none for a source without limits.
        account_id: the account of a caller that waits if it is refused.
        now: the time, for tests; without it Postgres' clock.
    """
    cursor = await connection.execute(
        "select * from admit_request_2(%s::text, %s::text, %s::int[], %s::int[], %s::uuid, %s::int,"
        " %s::float8, %s::float8, %s::timestamptz)",
        (
            source, bucket, [rate.requests for rate in rates], [rate.seconds for rate in rates], account_id,
            FAILURES_TO_OPEN, PROBE_SECONDS, ERROR_WEIGHT, now,
        ),
    )  # fmt: skip
    row = await cursor.fetchone()
    assert row is not None
    if row["reason"] is None:
        return Admission(admitted=True)
    return Admission(False, row["reason"], row["retry_after"], row["quota"])


async def read_use(connection: Connection) -> Mapping[tuple[str, int], WindowUse]:
    """Return the use of each window, by bucket and length in seconds."""
    cursor = await connection.execute(
        "select bucket, seconds,"
        " (totals[cardinality(totals)] - coalesce(totals[gone], forgotten))::int as used,"
        " moments[gone + 1] + make_interval(secs => seconds) as resets_at"
        " from source_windows, lateral (select"
        " width_bucket(now() - make_interval(secs => seconds), moments) as gone) as g"
    )
    return {
        (row["bucket"], row["seconds"]): WindowUse(row["used"], row["resets_at"])
        for row in await cursor.fetchall()
    }


async def forget_ended(connection: Connection) -> None:
    """Delete the windows in which no request counts any more, and the turns that have expired."""
    await connection.execute(
        "delete from source_windows"
        " where moments[cardinality(moments)] < now() - 2 * make_interval(secs => seconds)"
    )
    await connection.execute("delete from source_turns where ends_at < now()")
