"""How often sources may be asked: their windows, which all processes share, and the turns of who waits.

Any window of a stated length holds at most its number of requests; sql/count_request_1.sql says how they are
logged. All windows of a bucket bind. A bucket is a source's own, or that of the account it is asked with.

The windows are logged tables' rows: a crash of the database must not make room for another day's requests.
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
        totals: for each moment, how many requests were admitted until then.
        forgotten: how many of these requests have left the log, because the window has passed them.
    """

    __tablename__ = "source_windows"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    bucket: str = Field(sa_column=Column(Text, primary_key=True))
    seconds: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    moments: list[datetime] = Field(sa_column=Column(ARRAY(DateTime(timezone=True)), nullable=False))
    totals: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False))
    forgotten: int = Field(sa_column=Column(BigInteger, nullable=False))


class SourceTurn(SQLModel, table=True):
    """The turn of one account that waits for a bucket; sql/admit_request_2.sql says how turns go.

    There is a row only while the account waits. Unlogged: a crash of the database forgets who was next.
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
    """How much of a window is used: so many requests, one of which leaves it at `resets_at`."""

    used: int
    resets_at: datetime | None


def share_of_waiting(rate: Rate) -> int:
    """Return how many requests of a window are for callers that wait: four fifths, and one at least."""
    return max(1, rate.requests * 4 // 5)


async def admit(
    connection: Connection,
    source: str,
    bucket: str,
    rates: Sequence[Rate],
    account_id: UUID | None = None,
    now: datetime | None = None,
) -> Admission:
    """Count one request to `source`, unless a window of its bucket is full or it is left alone.

    Args:
        connection: any, outside of a transaction.
        source: which one.
        bucket: whose windows count.
        rates: the windows; none for a source without limits.
        account_id: of a caller that waits if it is refused.
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
    """Bucket and length in seconds → how much of that window is used."""
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
    """Delete the windows in which no request counts any more, and the turns of who did not come back."""
    await connection.execute(
        "delete from source_windows"
        " where moments[cardinality(moments)] < now() - 2 * make_interval(secs => seconds)"
    )
    await connection.execute("delete from source_turns where ends_at < now()")
