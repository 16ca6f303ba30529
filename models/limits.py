"""Rate limits that hold over all processes: one row a subject, one statement for many decisions.

A window opens with its first request and lasts its length; it admits its number of requests, exactly,
however many processes ask at once. The table is unlogged: a crash of the database forgets open windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, DateTime, Text
from sqlmodel import Field, SQLModel

from database import Connection
from settings import Rate

Subject = tuple[str, str]
"""The name of a limit, and who is counted: an account, an address, a workflow."""


class Window(SQLModel, table=True):
    """The open window of one subject under one limit; `admitted` is what the latest statement let pass."""

    __tablename__ = "rate_windows"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"prefixes": ["unlogged"], "postgresql_with": {"fillfactor": 50}},)

    name: str = Field(sa_column=Column(Text, primary_key=True))
    subject: str = Field(sa_column=Column(Text, primary_key=True))
    requests: int
    seconds: int
    used: int
    admitted: int
    opened_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


@dataclass(frozen=True)
class Taken:
    """What became of the requests of one subject.

    Attributes:
        admitted: how many of them may pass.
        used: how many have passed in this window.
        resets_in: seconds until the window ends, more than 0.
        opened_at: names the window, for `give_back`.
    """

    admitted: int
    used: int
    resets_in: float
    opened_at: datetime


# `excluded` is what is asked now: its `used` is the number of requests, its `opened_at` the time. Sorted,
# so that two processes that ask for the same subjects cannot wait for each other.
_ENDED = "w.opened_at <= excluded.opened_at - make_interval(secs => excluded.seconds)"
_TAKE = f"""
insert into rate_windows as w (name, subject, requests, seconds, used, admitted, opened_at)
select name, subject, requests, seconds, least(asked, requests), least(asked, requests), clock_timestamp()
from unnest(%s::text[], %s::text[], %s::int[], %s::int[], %s::int[])
    as a (name, subject, requests, seconds, asked)
order by name, subject
on conflict (name, subject) do update
set requests = excluded.requests, seconds = excluded.seconds,
    used = case when {_ENDED} then excluded.used
        else greatest(w.used, least(w.used + excluded.used, excluded.requests)) end,
    admitted = case when {_ENDED} then excluded.used
        else greatest(0, least(excluded.used, excluded.requests - w.used)) end,
    opened_at = case when {_ENDED} then excluded.opened_at else w.opened_at end
returning name, subject, admitted, used, opened_at,
    extract(epoch from opened_at + make_interval(secs => seconds) - clock_timestamp())::float8 as resets_in
"""


async def take(connection: Connection, asked: Mapping[Subject, tuple[int, Rate]]) -> dict[Subject, Taken]:
    """Count requests: for each subject how many, and under which rate."""
    names, subjects = zip(*asked, strict=True)
    counts, rates = zip(*asked.values(), strict=True)
    cursor = await connection.execute(
        _TAKE,  # pyright: ignore[reportArgumentType]
        (
            list(names), list(subjects), [rate.requests for rate in rates], [rate.seconds for rate in rates],
            list(counts),
        ),
    )  # fmt: skip
    return {
        (row["name"], row["subject"]): Taken(
            row["admitted"], row["used"], max(0.001, row["resets_in"]), row["opened_at"]
        )
        for row in await cursor.fetchall()
    }


async def give_back(connection: Connection, subject: Subject, window: datetime) -> None:
    """Uncount a request that was admitted, if its window is still the open one."""
    await connection.execute(
        "update rate_windows set used = used - 1 where name = %s and subject = %s and opened_at = %s",
        (*subject, window),
    )


async def hold(connection: Connection, subject: Subject, seconds: int) -> datetime | None:
    """Take a place of which a subject has one.

    Returns:
        What `release` needs to give it back; by itself it is free after so many seconds. None: it is taken.
    """
    taken = (await take(connection, {subject: (1, Rate(1, seconds))}))[subject]
    return taken.opened_at if taken.admitted else None


async def release(connection: Connection, subject: Subject, window: datetime) -> None:
    """Give a place back, unless it has been taken anew: the next to hold it has its whole time."""
    await connection.execute(
        "delete from rate_windows where name = %s and subject = %s and opened_at = %s", (*subject, window)
    )


async def forget_ended(connection: Connection) -> None:
    """Remove the windows that have ended."""
    await connection.execute(
        "delete from rate_windows where opened_at < now() - 2 * make_interval(secs => seconds)"
    )
