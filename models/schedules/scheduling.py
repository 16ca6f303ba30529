"""The synchronisation of rows with their Temporal Schedules.

A row has `next_run_at`, when it is due, and `scheduled_for`, the value that its Schedule last got. The row is
the truth: if the two differ, the Schedule is updated again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString, NamedTuple
from uuid import UUID

from database import Connection

# Any constant: the second part of the lock is the hash of an id.
_SCHEDULING = 0x5C4ED
DUE_BY: LiteralString = (
    "greatest(clock_timestamp(), least(coalesce(%s::timestamptz, '-infinity'),"
    " clock_timestamp() + interval '90 seconds'))"
)
"""The time by which a row is due whose Schedule has come at a time: its clock may be ahead of the database's.

Not by more than this: whoever triggers a Schedule by hand does not use up a run of next month.
"""


class Due(NamedTuple):
    """The next time at which a row is due, and its account; None while it is paused.

    `is_known`: whether it got a Schedule before.
    """

    id: UUID
    account_id: UUID
    at: datetime | None
    is_known: bool


@dataclass(frozen=True)
class ScheduledTable:
    """A table whose rows have Schedules.

    Attributes:
        name: the name of the table.
        key: the column with the id that is in the names of Schedules.
        gone: the condition for a row that only waits for its Schedule to be deleted.
    """

    name: LiteralString
    key: LiteralString
    gone: LiteralString

    async def find_due(self, connection: Connection, *, seconds_late: int = 0, limit: int) -> list[UUID]:
        """Return rows that have been due for this long but were not started, those of each account in turn.

        A row is due at once if its Schedule has another time.
        """
        return await self._find_in_turn(
            connection,
            "next_run_at <= statement_timestamp() and (scheduled_for is distinct from next_run_at"
            " or next_run_at <= statement_timestamp() - make_interval(secs => %s))",
            seconds_late,
            limit,
        )

    async def find_unscheduled(self, connection: Connection, limit: int) -> list[UUID]:
        """Return rows whose Schedule does not have their next time yet, those of each account in turn."""
        return await self._find_in_turn(
            connection, f"scheduled_for is distinct from next_run_at and not ({self.gone})", limit
        )

    async def find_gone(self, connection: Connection, limit: int = 20) -> list[UUID]:
        """Return rows that only wait for their Schedule to be deleted."""
        return await self._find(connection, f"{self.gone} order by {self.key} limit %s", limit)

    async def _find_in_turn(self, connection: Connection, where: LiteralString, *values: int) -> list[UUID]:
        cursor = await connection.execute(
            f"select id from (select {self.key} as id, next_run_at, row_number() over ("
            f"  partition by account_id order by next_run_at, {self.key}) as place"
            f" from {self.name} where {where}) n order by place, next_run_at, id limit %s",
            values,
        )
        return [row["id"] for row in await cursor.fetchall()]

    async def _find(self, connection: Connection, where: LiteralString, *values: int) -> list[UUID]:
        cursor = await connection.execute(f"select {self.key} as id from {self.name} where {where}", values)
        return [row["id"] for row in await cursor.fetchall()]

    async def try_to_lock(self, connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
        """Lock the Schedules of rows until the transaction ends; return the ids that were free.

        The rows themselves are not locked: a change of a row is not delayed, and is noticed later.
        """
        cursor = await connection.execute(
            "select id from unnest(%s::uuid[]) as given (id)"
            " where pg_try_advisory_xact_lock(%s, hashtext(id::text))",
            (list(ids), _SCHEDULING),
        )
        return [row["id"] for row in await cursor.fetchall()]

    async def lock_schedules(self, connection: Connection, ids: Sequence[UUID]) -> list[Due]:
        """Lock the Schedules of rows until the transaction ends.

        Returns:
            The next time of each; without rows that are locked elsewhere or gone.
        """
        locked = await self.try_to_lock(connection, ids)
        cursor = await connection.execute(
            f"select {self.key} as id, account_id, next_run_at as at,"
            f" scheduled_for is not null as is_known from {self.name}"
            f" where {self.key} = any(%s) and not ({self.gone})",
            (locked,),
        )
        return [Due(**row) for row in await cursor.fetchall()]

    async def mark_scheduled(self, connection: Connection, told: Sequence[Due]) -> list[Due]:
        """Record the times that Schedules got; return those whose rows are being changed.

        These are not recorded and need `mark_changed`: the concurrent change may restore the time that is
        recorded from before.
        """
        cursor = await connection.execute(
            f"update {self.name} t set scheduled_for = d.at"
            " from unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as d (id, at)"
            f" where t.{self.key} = d.id and t.{self.key} in (select {self.key} from {self.name}"
            f"  where {self.key} = any(%(ids)s) for no key update skip locked) returning t.{self.key} as id",
            {"ids": [due.id for due in told], "times": [due.at for due in told]},
        )
        noted = {row["id"] for row in await cursor.fetchall()}
        return [due for due in told if due.id not in noted]

    async def mark_changed(self, connection: Connection, told: Due) -> None:
        """Record the time that a Schedule got, after waiting for a change of its row; in no transaction."""
        await connection.execute(
            f"update {self.name} set scheduled_for = %s where {self.key} = %s", (told.at, told.id)
        )

    async def reconcile(
        self, connection: Connection, scheduled: Mapping[UUID, datetime | None]
    ) -> Collection[UUID]:
        """Mark the Schedules that differ from their rows, so that they are updated again.

        Args:
            connection: inside or outside a transaction.
            scheduled: id → the next time of its Schedule; None if it has none.

        Returns:
            The ids without a row.
        """
        cursor = await connection.execute(
            f"select {self.key} as id, {self.gone} as is_gone, next_run_at from {self.name}"
            f" where not ({self.gone}) or {self.key} = any(%s)",
            (list(scheduled),),
        )
        rows = await cursor.fetchall()
        wrong = [
            row["id"] for row in rows if not row["is_gone"] and scheduled.get(row["id"]) != row["next_run_at"]
        ]
        await connection.execute(
            f"update {self.name} set scheduled_for = null where {self.key} = any(%s)", (wrong,)
        )
        return scheduled.keys() - {row["id"] for row in rows}


MONITORS = ScheduledTable("monitors", "id", "deleted_at is not null")
WORKFLOWS = ScheduledTable("automation_schedules", "automation_id", "ended")
