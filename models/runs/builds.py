"""Builds of the code: which of them may take work.

A worker says with its shift of which build it is. Claims read here whether that is admitted, and with what
share. Workers of releases from before this table are of the build `UNNAMED`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import LiteralString, NamedTuple

from sqlalchemy import CheckConstraint, Column, DateTime, SmallInteger, Text, text
from sqlmodel import Field, SQLModel

from database import Connection

UNNAMED = "unnamed"
"""The build of all workers that do not say theirs."""
WHOLE_SHARE = 100


class BuildState(StrEnum):
    """The states of a build: its workers take work, wait to be admitted, or take no more."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    DRAINED = "drained"


class Build(SQLModel, table=True):
    """A build that has had a worker.

    Attributes:
        state: see `BuildState`.
        share: the runs that a worker of it may have at work, in percent of those of another worker.
    """

    __tablename__ = "builds"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        CheckConstraint("state in ('admitted', 'waiting', 'drained')", name="state"),
        CheckConstraint("share between 1 and 100", name="share"),
    )

    name: str = Field(primary_key=True, sa_type=Text)
    state: str = Field(sa_type=Text)
    share: int = Field(sa_column=Column(SmallInteger, nullable=False, server_default="100"))
    first_seen_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )
    changed_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )


class BuildStatus(NamedTuple):
    """A build with its workers.

    Attributes:
        state: see `BuildState`.
        share: 100, or less for one that is tried.
        workers: the number of its workers that have beaten within the last 15 seconds.
        at_work: the number of runs that these have at work.
    """

    name: str
    state: str
    share: int
    workers: int
    at_work: int
    first_seen_at: datetime
    changed_at: datetime


async def register(connection: Connection, name: str, state: BuildState) -> None:
    """Record a build; one that is known keeps its state."""
    await connection.execute(
        "insert into builds (name, state) values (%s, %s) on conflict (name) do nothing", (name, state)
    )


async def set_state(connection: Connection, name: str, state: BuildState, share: int = WHOLE_SHARE) -> bool:
    """Admit or drain a build, from the next beat of its workers on; return whether it is known."""
    cursor = await connection.execute(
        "update builds set state = %s, share = %s, changed_at = now() where name = %s", (state, share, name)
    )
    return cursor.rowcount > 0


_STATUS: LiteralString = """
select b.name, b.state, b.share, count(s.id)::int as workers, coalesce(sum(s.at_work), 0)::int as at_work,
  b.first_seen_at, b.changed_at
from builds b left join shifts s on s.build = b.name and s.beat_at > now() - interval '15 seconds'
group by b.name order by b.first_seen_at desc, b.name limit 100
"""


async def list_builds(connection: Connection) -> list[BuildStatus]:
    """Return the newest hundred builds with their workers, the newest first."""
    rows = await (await connection.execute(_STATUS)).fetchall()
    return [BuildStatus(**row) for row in rows]


def takes_work(found: list[BuildStatus]) -> bool:
    """Return whether a worker of an admitted build is alive."""
    return any(one.state == BuildState.ADMITTED and one.workers for one in found)
