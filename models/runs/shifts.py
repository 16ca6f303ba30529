"""Shifts: the lease of a worker process for all runs that it takes forward.

A worker proves that it lives by a counter in its row. Who has seen the same count for ten seconds, by a clock
of its own, ends the shift: what it carried is queued. A run is its carrier's by the `claim_id` that its last
claim gave it; that alone is the fence, see `models.runs.run_writes`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import BigInteger, Column, DateTime, text
from sqlmodel import Field, SQLModel

from database import Connection
from models.priorities import ALONE

SILENT_SECONDS = 10
"""A shift may be ended by others after so long without a beat."""

UNFIT = -1
"""The room of a worker that is not to be woken, be there room nowhere else."""


class Shift(SQLModel, table=True):
    """A worker's lease.

    Attributes:
        beats: the counter by which its worker proves that it lives.
        beat_at: when it has last, by the database's clock: for people, and for whom to wake.
        at_work: how many runs it had then.
        room: how many more it would have taken; `UNFIT`: none, it was halted, late or stopping.
    """

    __tablename__ = "shifts"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    id: UUID = Field(primary_key=True)
    worker_id: UUID
    started_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )
    beats: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    beat_at: datetime = Field(
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()"))
    )
    at_work: int = Field(sa_column_kwargs={"server_default": text("0")})
    room: int = Field(sa_column_kwargs={"server_default": text("-1")})


class News(NamedTuple):
    """What others have done to runs that are at work here.

    Attributes:
        gone: they are at work no longer: they have ended, were cancelled, or are somebody else's.
        woken: what they wait for has come, or may have.
        at: what the database's clock showed.
    """

    gone: set[UUID]
    woken: set[UUID]
    at: datetime


async def begin(connection: Connection, shift_id: UUID, worker_id: UUID) -> None:
    """Begin a shift; that is its first beat. It takes nothing on before it has told its room."""
    await connection.execute("insert into shifts (id, worker_id) values (%s, %s)", (shift_id, worker_id))


_NEWS: LiteralString = """
select n.run_id, w.run_id is null as gone from unnest(%s::uuid[], %s::uuid[]) as n (run_id, claim_id)
left join run_work w on w.run_id = n.run_id and w.claim_id = n.claim_id where w.run_id is null or w.woken
"""


async def beat(connection: Connection, shift_id: UUID, room: int, claims: Mapping[UUID, UUID]) -> News | None:
    """Prove that the worker lives, and find out what others did to its runs.

    Args:
        connection: outside a transaction.
        shift_id: whose beat it is.
        room: how many more runs it would take.
        claims: by run at work, its `claim_id`.

    Returns:
        None if somebody has ended the shift.
    """
    cursor = await connection.execute(
        "update shifts set beats = beats + 1, beat_at = clock_timestamp(), at_work = %s, room = %s"
        " where id = %s returning clock_timestamp() as at",
        (len(claims), room, shift_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    cursor = await connection.execute(_NEWS, (list(claims), list(claims.values())))
    rows = await cursor.fetchall()
    gone = {one["run_id"] for one in rows if one["gone"]}
    return News(gone, {one["run_id"] for one in rows} - gone, row["at"])


_QUEUE_AGAIN: LiteralString = """
update run_work set status = 'queued', carrier = null, claim_id = null, wake_at = null,
  available_at = clock_timestamp()
where run_id in (select run_id from run_work where {} order by run_id for update)
"""


async def leave(connection: Connection, shift_id: UUID) -> int:
    """End one's own shift, and queue what is left of it; returns how many runs that are."""
    async with connection.transaction():
        await connection.execute("delete from shifts where id = %s", (shift_id,))
        cursor = await connection.execute(_QUEUE_AGAIN.format("carrier = %s"), (shift_id,))
    return cursor.rowcount


async def give_back(connection: Connection, claims: Mapping[UUID, UUID]) -> int:
    """Queue runs that one cannot go on with, as far as they are one's own still; returns how many."""
    cursor = await connection.execute(
        _QUEUE_AGAIN.format("(run_id, claim_id) in (select * from unnest(%s::uuid[], %s::uuid[]))"),
        (list(claims), list(claims.values())),
    )
    return cursor.rowcount


async def find_carried(connection: Connection, shift_id: UUID) -> list[tuple[UUID, UUID]]:
    """Find the runs that a shift carries, each with its `claim_id`."""
    cursor = await connection.execute(
        "select run_id, claim_id from run_work where carrier = %s and status = 'running'", (shift_id,)
    )
    return [(row["run_id"], row["claim_id"]) for row in await cursor.fetchall()]


async def end(connection: Connection, shift_id: UUID, beats: int) -> int | None:
    """End a shift that has stood still, and queue what it carried.

    Returns:
        How many runs that were; None if it has beaten since, or is over.
    """
    cursor = await connection.execute("select end_shift_2(%s, %s, %s) as runs", (shift_id, beats, ALONE))
    row = await cursor.fetchone()
    return row["runs"] if row else None


class Others:
    """The shifts that a process has seen, and since when the count of each stands still."""

    def __init__(self) -> None:
        self._seen: dict[UUID, tuple[int, float]] = {}
        self._looked_at = float("-inf")

    async def find_silent(self, connection: Connection) -> list[tuple[UUID, int]]:
        """Look at all shifts; find those that have stood still for long enough, with their count.

        While nobody could look, nobody could beat either: such a while does not count.
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
