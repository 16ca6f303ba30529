"""Shifts: the lease of a worker process for all runs that it executes.

A worker proves that it lives by a counter in its row. A process that has seen the same count for ten seconds,
by its own clock, ends the shift, and its runs are queued. A run belongs to its carrier by the `claim_id` of
its last claim; only that is the fence, see `models.runs.run_writes`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import BigInteger, Column, DateTime, Text, text
from sqlmodel import Field, SQLModel

from database import Connection
from models.priorities import ALONE
from models.runs import builds

SILENT_SECONDS = 10
"""Other processes may end a shift after this long without a beat."""

UNFIT = -1
"""The room of a worker that must not be woken, even if no other worker has room."""


class Shift(SQLModel, table=True):
    """A worker's lease.

    Attributes:
        build: the build of its worker, see `models.runs.builds`.
        beats: the counter by which its worker proves that it lives.
        beat_at: the time of the last beat, by the database's clock: for people, and to choose a worker to
        wake.
        at_work: the number of its runs then.
        room: the number of further runs it had room for; `UNFIT` if it was halted, late or stopping.
    """

    __tablename__ = "shifts"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    id: UUID = Field(primary_key=True)
    worker_id: UUID
    build: str = Field(sa_column=Column(Text, nullable=False, server_default="unnamed"))
    started_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )
    beats: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    beat_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )
    at_work: int = Field(sa_column_kwargs={"server_default": text("0")})
    room: int = Field(sa_column_kwargs={"server_default": text("-1")})


class ShiftChanges(NamedTuple):
    """Changes by others to the runs of this worker.

    Attributes:
        gone: runs that it no longer has: they ended, were cancelled, or have another carrier.
        woken: runs whose awaited event has come, or may have.
        at: the time by the database's clock.
        share: how much this worker may have at work, in percent; 0 if its build is not admitted.
    """

    gone: set[UUID]
    woken: set[UUID]
    at: datetime
    share: int


async def begin(connection: Connection, shift_id: UUID, worker_id: UUID, build: str = builds.UNNAMED) -> None:
    """Begin a shift; this counts as its first beat. It gets no runs before it has announced its room."""
    await connection.execute(
        "insert into shifts (id, worker_id, build) values (%s, %s, %s)", (shift_id, worker_id, build)
    )


_BEAT: LiteralString = """
update shifts s set beats = beats + 1, beat_at = clock_timestamp(), at_work = %s, room = %s where s.id = %s
returning clock_timestamp() as at, coalesce(
  (select case b.state when 'admitted' then b.share else 0 end from builds b where b.name = s.build), 100
) as share
"""
_NEWS: LiteralString = """
select n.run_id, w.run_id is null as gone from unnest(%s::uuid[], %s::uuid[]) as n (run_id, claim_id)
left join run_work w on w.run_id = n.run_id and w.claim_id = n.claim_id where w.run_id is null or w.woken
"""


async def beat(
    connection: Connection, shift_id: UUID, room: int, claims: Mapping[UUID, UUID]
) -> ShiftChanges | None:
    """Prove that the worker lives, and return the changes by others to its runs.

    Args:
        connection: outside a transaction.
        shift_id: the shift.
        room: the number of further runs that it has room for.
        claims: the `claim_id` of each run at work.

    Returns:
        None if another process has ended the shift.
    """
    cursor = await connection.execute(_BEAT, (len(claims), room, shift_id))
    row = await cursor.fetchone()
    if row is None:
        return None
    cursor = await connection.execute(_NEWS, (list(claims), list(claims.values())))
    rows = await cursor.fetchall()
    gone = {one["run_id"] for one in rows if one["gone"]}
    return ShiftChanges(gone, {one["run_id"] for one in rows} - gone, row["at"], row["share"])


_QUEUE_AGAIN: LiteralString = """
update run_work set status = 'queued', carrier = null, claim_id = null, wake_at = null,
  available_at = clock_timestamp()
where run_id in (select run_id from run_work where {} order by run_id for update)
"""


async def release(connection: Connection, shift_id: UUID) -> int:
    """End the caller's own shift, and queue its remaining runs; return their number."""
    async with connection.transaction():
        await connection.execute("delete from shifts where id = %s", (shift_id,))
        cursor = await connection.execute(_QUEUE_AGAIN.format("carrier = %s"), (shift_id,))
    return cursor.rowcount


async def requeue_runs(connection: Connection, claims: Mapping[UUID, UUID]) -> int:
    """Queue runs that the caller cannot continue, as far as it still has them; return their number."""
    cursor = await connection.execute(
        _QUEUE_AGAIN.format("(run_id, claim_id) in (select * from unnest(%s::uuid[], %s::uuid[]))"),
        (list(claims), list(claims.values())),
    )
    return cursor.rowcount


async def find_carried(connection: Connection, shift_id: UUID) -> list[tuple[UUID, UUID]]:
    """Return the runs that a shift carries, each with its `claim_id`."""
    cursor = await connection.execute(
        "select run_id, claim_id from run_work where carrier = %s and status = 'running'", (shift_id,)
    )
    return [(row["run_id"], row["claim_id"]) for row in await cursor.fetchall()]


async def end(connection: Connection, shift_id: UUID, beats: int) -> int | None:
    """End a shift whose counter stands still, and queue its runs.

    Returns:
        The number of runs; None if the shift has beaten since, or has ended.
    """
    cursor = await connection.execute("select end_shift_2(%s, %s, %s) as runs", (shift_id, beats, ALONE))
    row = await cursor.fetchone()
    return row["runs"] if row else None


class ObservedShifts:
    """The shifts that a process has seen, and the time since which each counter stands still."""

    def __init__(self) -> None:
        self._seen: dict[UUID, tuple[int, float]] = {}
        self._looked_at = float("-inf")

    async def find_silent(self, connection: Connection) -> list[tuple[UUID, int]]:
        """Read all shifts; return those whose counter has stood still for long enough, with their count.

        A period in which this process could not read does not count: others could not beat then either.
        """
        cursor = await connection.execute("select id, beats from shifts")
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        missed = now - self._looked_at > SILENT_SECONDS / 2
        self._looked_at = now
        before, self._seen = self._seen, {}
        for row in await cursor.fetchall():
            beats, since = before.get(row["id"], (None, now))
            stands = beats == row["beats"] and not missed
            self._seen[row["id"]] = (row["beats"], since if stands else now)
        return [(one, beats) for one, (beats, since) in self._seen.items() if now - since >= SILENT_SECONDS]
