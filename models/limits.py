"""Rate limits that hold over all processes: one row a subject, one statement for many decisions.

Any window of the given length admits at most the given number of requests, from all processes together. The
row logs when requests were admitted:

- Up to 120 requests, the log stores the moment of each. A request is refused only if the window is really
  full.
- Above that, time is divided into cells of 1/120 of the window. All requests of a cell count until the end of
  the
  cell is as old as the window, so each counts at least as long as it must. At worst a subject waits one
  cell longer than necessary.

The table is unlogged: a crash of the database empties the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, Column, DateTime, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection
from settings import Rate

EXACT_REQUESTS = CELLS = 120

Subject = tuple[str, str]
"""The name of a limit, and the account, address or workflow that is counted."""


class Window(SQLModel, table=True):
    """The log of one subject under one limit.

    Attributes:
        asked_at: the time of the latest statement.
        admitted: the number of requests that statement admitted.
        moments: when requests were admitted, ascending: the moments themselves, or the ends of their cells.
        totals: for each moment, the number of requests admitted until then.
        forgotten: the number of requests that have left the log because they are older than the window.
    """

    __tablename__ = "rate_windows"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"prefixes": ["unlogged"], "postgresql_with": {"fillfactor": 50}},)

    name: str = Field(sa_column=Column(Text, primary_key=True))
    subject: str = Field(sa_column=Column(Text, primary_key=True))
    requests: int
    seconds: int
    asked_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    admitted: int
    moments: list[datetime] = Field(sa_column=Column(ARRAY(DateTime(timezone=True)), nullable=False))
    totals: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False))
    forgotten: int = Field(sa_column=Column(BigInteger, nullable=False))


@dataclass(frozen=True)
class Admission:
    """The decision on the requests of one subject.

    Attributes:
        admitted: the number of requests that may pass.
        used: the number of requests in the window now.
        room_in: seconds until the window has room for one more request than now; always more than 0.
        moment: the moment under which they are logged, for `give_back`.
    """

    admitted: int
    used: int
    room_in: float
    moment: datetime


# `excluded` is the request: its `admitted` is the number that an empty window would admit. A conflict locks
# the row, so decisions are made one after the other. Logged moments never go back, in any order of locking.
# `gone` counts the moments that are as old as the window. The rows are sorted, so that two processes with the
# same subjects cannot deadlock.
_ADMIT = f"""
insert into rate_windows as w
  (name, subject, requests, seconds, asked_at, admitted, moments, totals, forgotten)
select name, subject, requests, seconds, now, least(asked, requests),
  array[case when requests <= {EXACT_REQUESTS} then now else date_bin(cell, now, 'epoch') + cell end],
  array[least(asked, requests)], 0
from unnest(%s::text[], %s::text[], %s::int[], %s::int[], %s::int[])
    as a (name, subject, requests, seconds, asked),
  coalesce(%s::timestamptz, clock_timestamp()) as now,
  lateral (select make_interval(secs => seconds / {CELLS}.0) as cell) as c
order by name, subject
on conflict (name, subject) do update
set (requests, seconds, asked_at, admitted, moments, totals, forgotten) = (
  select excluded.requests, excluded.seconds, excluded.asked_at, passing,
    case passing when 0 then w.moments[gone + 1:] else w.moments[gone + 1:size - joined] || moment end,
    case passing when 0 then w.totals[gone + 1:]
      else w.totals[gone + 1:size - joined] || total + passing end,
    before
  from (select cardinality(w.moments) as size,
      width_bucket(excluded.asked_at - make_interval(secs => excluded.seconds), w.moments) as gone) as a,
    lateral (select coalesce(w.totals[size], w.forgotten) as total,
      coalesce(w.totals[gone], w.forgotten) as before,
      greatest(excluded.moments[1], w.moments[size]) as moment) as b,
    lateral (select greatest(0, least(excluded.admitted, excluded.requests - (total - before))) as passing,
      (w.moments[size] is not distinct from moment)::int as joined) as c
)
returning name, subject, admitted, coalesce(totals[cardinality(totals)] - forgotten, 0) as used,
  moments[cardinality(moments)] as moment,
  extract(epoch from moments[1 + width_bucket(totals[cardinality(totals)] - requests, totals)]
    + make_interval(secs => seconds) - asked_at)::float8 as room_in
"""


async def admit(
    connection: Connection, requests: Mapping[Subject, tuple[int, Rate]], now: datetime | None = None
) -> dict[Subject, Admission]:
    """Decide how many requests of each subject may pass, and log those.

    Args:
        connection: inside or outside a transaction.
        requests: for each subject the number of requests, and their limit.
        now: the time, for tests; without it Postgres' clock.
    """
    names, subjects = zip(*requests, strict=True)
    counts, rates = zip(*requests.values(), strict=True)
    cursor = await connection.execute(
        _ADMIT,  # pyright: ignore[reportArgumentType]
        (
            list(names), list(subjects), [rate.requests for rate in rates], [rate.seconds for rate in rates],
            list(counts), now,
        ),
    )  # fmt: skip
    return {
        (row["name"], row["subject"]): Admission(row["admitted"], row["used"], row["room_in"], row["moment"])
        for row in await cursor.fetchall()
    }


async def give_back(connection: Connection, subject: Subject, moment: datetime) -> None:
    """Remove an admitted request from the log, if it is still there.

    Args:
        connection: inside or outside a transaction.
        subject: the subject of the request.
        moment: the `moment` of its admission.
    """
    await connection.execute(
        "update rate_windows w set (moments, totals) = ("
        " select coalesce(array_agg(moment order by place), '{}'),"
        "  coalesce(array_agg(total - (moment >= %(moment)s)::int order by place), '{}')"
        " from unnest(w.moments, w.totals) with ordinality as logged (moment, total, place)"
        " where moment <> %(moment)s or total - 1 > coalesce(w.totals[place - 1], w.forgotten))"
        " where name = %(name)s and subject = %(subject)s and %(moment)s = any(moments)",
        {"name": subject[0], "subject": subject[1], "moment": moment},
    )


async def hold(connection: Connection, subject: Subject, seconds: int) -> datetime | None:
    """Take the only permit of a subject.

    Returns:
        The moment to pass to `release`; None if the permit is taken. It expires after `seconds`.
    """
    admission = (await admit(connection, {subject: (1, Rate(1, seconds))}))[subject]
    return admission.moment if admission.admitted else None


async def release(connection: Connection, subject: Subject, moment: datetime) -> None:
    """Release a permit, unless it has expired and was taken again."""
    await give_back(connection, subject, moment)


async def forget_ended(connection: Connection) -> None:
    """Delete the logs that contain no request that still counts."""
    await connection.execute(
        "delete from rate_windows where asked_at < now() - 2 * make_interval(secs => seconds)"
    )
