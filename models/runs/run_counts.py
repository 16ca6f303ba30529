"""The numbers of runs, maintained by the database: a list returns its total without counting.

A trigger of the table `runs` inserts the changes of each statement as separate rows, so that transactions do
not wait for each other's counter; `compact` adds them up from time to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from sqlalchemy import BigInteger, Column, Identity, Index, Text
from sqlmodel import Field, SQLModel

from database import Connection


class RunCount(SQLModel, table=True):
    """A change of the number of runs of one workflow in one status: the sum is the number of runs.

    There are no foreign keys: runs that are deleted with their account are counted after the account is gone.
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
    """Return the number of an account's runs, optionally of one workflow or in one status."""
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


async def count_unfinished_by_status(connection: Connection) -> dict[str, int]:
    """Return the number of unfinished runs of the installation, by status."""
    cursor = await connection.execute(
        "select s.status, coalesce(sum(c.runs), 0)::bigint as runs"
        " from unnest(array['queued', 'running', 'waiting']) as s (status)"
        " left join run_counts c using (status) group by s.status order by s.status"
    )
    return {row["status"]: row["runs"] for row in await cursor.fetchall()}


async def count_unfinished(connection: Connection, account_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of unfinished runs of each of these accounts."""
    cursor = await connection.execute(
        "select account_id, sum(runs)::bigint as runs from run_counts"
        " where account_id = any(%s) and status in ('queued', 'running', 'waiting') group by account_id",
        (account_ids,),
    )
    found = {row["account_id"]: row["runs"] for row in await cursor.fetchall()}
    return dict.fromkeys(account_ids, 0) | found


# Rows that another process adds up at the same time are skipped.
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
    """Add up the rows that statements have inserted, so that few are left to sum."""
    await connection.execute(_COMPACT)
