"""Rows that have a Temporal workflow each: claimed, marked when it has begun, probed while it works.

`probed_at` is the time when a row was claimed or its workflow was last probed. Dispatchers probe a workflow
by starting it once more: Temporal refuses that, and its answer contains the state of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, LiteralString, TypeVar
from uuid import UUID

from database import Connection

Claimed = TypeVar("Claimed")

_START_SECONDS, _UNSEEN_SECONDS = 5, 60


@dataclass(frozen=True, kw_only=True)
class WorkflowTable(Generic[Claimed]):
    """A table whose rows have a workflow each.

    Attributes:
        name: the name of the table.
        columns: the columns needed to start the workflow of a row.
        claimed: the class that holds these columns.
        begun: the column with the time when Temporal accepted the workflow.
        at_work: the condition for a row whose workflow is needed.
    """

    name: LiteralString
    columns: LiteralString
    claimed: Callable[..., Claimed]
    begun: LiteralString = "begun_at"
    at_work: LiteralString = "completed_at is null and status = 'running'"

    async def mark_begun(self, connection: Connection, id: UUID) -> None:
        """Record that Temporal has accepted the workflow of a row."""
        await connection.execute(
            f"update {self.name} set {self.begun} = clock_timestamp() where id = %s and {self.begun} is null",
            (id,),
        )

    async def find_unseen(self, connection: Connection, limit: int = 32) -> list[Claimed]:
        """Find rows whose workflow must be probed: not begun after 5 s, or not probed for a minute.

        A row that was found is not found again for the same time.
        """
        cursor = await connection.execute(
            f"update {self.name} set probed_at = clock_timestamp() where id = any(array("
            f" select id from {self.name} where {self.at_work}"
            f"  and probed_at < clock_timestamp() - make_interval(secs => case when {self.begun} is null"
            "   then %(start)s else %(unseen)s end)"
            " order by probed_at limit %(limit)s for no key update skip locked))"
            f" returning {self.columns}",
            {"start": _START_SECONDS, "unseen": _UNSEEN_SECONDS, "limit": limit},
        )
        return [self.claimed(**row) for row in await cursor.fetchall()]


@dataclass(frozen=True, kw_only=True)
class AccountQueue(WorkflowTable[Claimed]):
    """A table whose rows are claimed one by one, with the accounts taking turns.

    Attributes:
        lock: a number that no other lock uses: claims run one after the other, so that each counts earlier
        claims.
        waits: the condition for a row that is at work but takes no room.
        begins: further assignments of a claim, after a comma; `m.now` is its time.
    """

    lock: int
    waits: LiteralString = "false"
    begins: LiteralString = ""

    async def claim(self, connection: Connection, room: int, **values: float) -> list[Claimed]:
        """Claim queued rows, first those of accounts that have few at work.

        The nth row of an account comes after the (n-1)th of all others. An account has at most as many rows
        at work as are free, so that there is always room for another one.

        Args:
            connection: outside a transaction.
            room: the number of rows that may be at work in the installation.
            values: the parameters of `waits`.
        """
        statement: LiteralString = f"""
with unfinished as materialized (
  select id, account_id, status, {self.waits} as waits from {self.name} where completed_at is null
), working as (
  select account_id, count(*) as n from unfinished where status = 'running' and not waits group by account_id
), room as (
  select greatest(%(room)s - coalesce(sum(n), 0), 0) as free from working
), ranked as (
  select u.id, coalesce(w.n, 0) + row_number() over (partition by u.account_id order by u.id) as place
  from unfinished u left join working w using (account_id) where u.status = 'queued'
), ordered as (
  select id, place, row_number() over (order by place, id) as nth from ranked
), chosen as (
  select id from ordered cross join room where nth <= free and place <= greatest(1, free - nth + 1)
)
update {self.name} set status = 'running', started_at = m.now, probed_at = m.now{self.begins}
from (select clock_timestamp() as now) m
where id = any(array(select id from chosen)) and status = 'queued'
returning {self.columns}
"""
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(%s)", (self.lock,))
            cursor = await connection.execute(statement, {"room": room, **values})
            return [self.claimed(**row) for row in await cursor.fetchall()]

    async def count_unfinished(self, connection: Connection) -> dict[str, int]:
        """Return the number of rows of the installation that have not ended, by status."""
        return await count_by_status(
            connection, f"(select status from {self.name} where completed_at is null)", "queued", "running"
        )


async def count_by_status(connection: Connection, rows: LiteralString, *statuses: str) -> dict[str, int]:
    """Return how many of the rows of a table or a subquery have each of these statuses."""
    cursor = await connection.execute(
        "select s.status, count(w.status)::int as n from unnest(%s::text[]) as s (status)"
        f" left join {rows} w using (status) group by s.status order by s.status",
        (list(statuses),),
    )
    return {row["status"]: row["n"] for row in await cursor.fetchall()}
