"""How many runs there are, kept by the database itself: a list says its total without counting.

A trigger of the table `runs` writes what each statement changes as rows of their own, so that nobody waits
for somebody else's counter; `compact` adds them up now and then.
"""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from sqlalchemy import BigInteger, Column, Identity, Index, Text
from sqlmodel import Field, SQLModel

from database import Connection


class RunCount(SQLModel, table=True):
    """So many runs more, or fewer, of one workflow in one status: the sum is how many there are.

    No foreign keys: runs that are deleted with their account are counted when it is gone already.
    """

    __tablename__ = "run_counts"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_run_counts_of", "account_id", "automation_id", "status"),)

    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    account_id: UUID
    automation_id: UUID
    status: str = Field(sa_type=Text)
    runs: int = Field(sa_type=BigInteger)


async def count(
    connection: Connection, account_id: UUID, *, automation_id: UUID | None, status: str | None
) -> int:
    """How many runs an account has; of one workflow, and in one status, if these are given."""
    where: LiteralString = "account_id = %(account_id)s"
    if automation_id is not None:
        where += " and automation_id = %(automation_id)s"
    if status is not None:
        where += " and status = %(status)s"
    cursor = await connection.execute(
        "select coalesce(sum(runs), 0)::bigint as total from run_counts where " + where,
        {"account_id": account_id, "automation_id": automation_id, "status": status},
    )
    row = await cursor.fetchone()
    return row["total"] if row else 0


async def unfinished(connection: Connection) -> dict[str, int]:
    """How many runs of the installation are not over, by status."""
    cursor = await connection.execute(
        "select s.status, coalesce(sum(c.runs), 0)::bigint as runs"
        " from unnest(array['queued', 'running', 'waiting']) as s (status)"
        " left join run_counts c using (status) group by s.status order by s.status"
    )
    return {row["status"]: row["runs"] for row in await cursor.fetchall()}


async def count_unfinished(connection: Connection, account_id: UUID) -> int:
    """Return how many runs of an account are not over."""
    cursor = await connection.execute(
        "select coalesce(sum(runs), 0)::bigint as total from run_counts"
        " where account_id = %s and status = any(array['queued', 'running', 'waiting'])",
        (account_id,),
    )
    row = await cursor.fetchone()
    return row["total"] if row else 0


# What another process adds up at the same time is left to it.
_COMPACT = """
with several as (
  select account_id, automation_id, status from run_counts
  group by account_id, automation_id, status having count(*) > 1 or sum(runs) = 0
), held as (
  select c.id from run_counts c join several using (account_id, automation_id, status)
  for update of c skip locked
), taken as (
  delete from run_counts where id in (select id from held) returning account_id, automation_id, status, runs
)
insert into run_counts (account_id, automation_id, status, runs)
select account_id, automation_id, status, sum(runs) from taken
group by account_id, automation_id, status having sum(runs) <> 0
"""


async def compact(connection: Connection) -> None:
    """Add up what statements have written, so that little is left to be summed."""
    await connection.execute(_COMPACT)
