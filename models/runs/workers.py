"""Live worker processes: each updates its row every second, and deletes it when it stops."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Column, DateTime, text
from sqlalchemy.dialects.postgresql import INET
from sqlmodel import Field, SQLModel

from database import Connection

_ALIVE_SECONDS = 15


class Worker(SQLModel, table=True):
    """A worker process.

    Attributes:
        halted: whether it claims no runs, because it is unfit.
        loop_lag: the longest lag of its event loop since the update before, in seconds.
        reaches_temporal: whether Temporal has answered it lately.
        address: of its end of the connection to the database; None over a socket of this machine.
    """

    __tablename__ = "workers"  # pyright: ignore[reportAssignmentType]

    id: UUID = Field(primary_key=True)
    started_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    seen_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    halted: bool = Field(sa_column_kwargs={"server_default": text("false")})
    loop_lag: float = Field(sa_column_kwargs={"server_default": text("0")})
    reaches_temporal: bool = Field(sa_column_kwargs={"server_default": text("false")})
    address: str | None = Field(sa_column=Column(INET, server_default=text("inet_client_addr()")))


class LiveWorkers(NamedTuple):
    """The live workers, as one of them sees them.

    Attributes:
        number: the number of live workers that claim.
        is_first: whether this worker is the first: the first does the work that must be done only once.
        leads: whether it is the first of those that reach Temporal: that one does such work with Temporal.
    """

    number: int
    is_first: bool
    leads: bool


async def sign_in(
    connection: Connection,
    worker_id: UUID,
    *,
    halted: bool = False,
    loop_lag: float = 0.0,
    reaches_temporal: bool = False,
) -> None:
    """Record that this worker is alive, with its state (see `Worker`); delete long silent ones."""
    await connection.execute(
        "insert into workers (id, started_at, seen_at, halted, loop_lag, reaches_temporal)"
        " values (%s, now(), now(), %s, %s, %s) on conflict (id) do update"
        " set seen_at = now(), halted = excluded.halted, loop_lag = excluded.loop_lag,"
        " reaches_temporal = excluded.reaches_temporal",
        (worker_id, halted, loop_lag, reaches_temporal),
    )
    await connection.execute("delete from workers where seen_at < now() - interval '1 hour'")


async def sign_out(connection: Connection, worker_id: UUID) -> None:
    """Delete the row of this worker, because it stops."""
    await connection.execute("delete from workers where id = %s", (worker_id,))


async def count_alive(connection: Connection) -> int:
    """Return the number of workers that claim and were alive within the last 15 seconds."""
    cursor = await connection.execute(
        "select count(*)::int as n from workers"
        " where not halted and seen_at > now() - make_interval(secs => %s)",
        (_ALIVE_SECONDS,),
    )
    row = await cursor.fetchone()
    return row["n"] if row else 0


async def find_alive(connection: Connection, worker_id: UUID) -> LiveWorkers:
    """Return the number of live workers that claim, and whether this one is the first of them."""
    cursor = await connection.execute(
        "select count(*) filter (where not halted)::int as number,"
        " coalesce((array_agg(id order by id))[1] = %(me)s, false) as is_first,"
        " coalesce((array_agg(id order by id) filter (where reaches_temporal))[1] = %(me)s, false) as leads"
        " from workers where seen_at > now() - make_interval(secs => %(seconds)s)",
        {"me": worker_id, "seconds": _ALIVE_SECONDS},
    )
    row = await cursor.fetchone()
    assert row is not None
    return LiveWorkers(**row)


async def count_by_state(connection: Connection) -> dict[str, int]:
    """Return the number of workers by what is to be known of them; one may count several times.

    `silent`: it was not stopped, and has not been heard for more than 15 seconds, but less than 10 minutes.
    """
    cursor = await connection.execute(
        "select count(*) filter (where alive)::int as alive,"
        " count(*) filter (where alive and halted)::int as halted,"
        " count(*) filter (where alive and not reaches_temporal)::int as without_temporal,"
        " count(*) filter (where not alive and seen_at > now() - interval '10 minutes')::int as silent"
        " from (select *, seen_at > now() - make_interval(secs => %s) as alive from workers) w",
        (_ALIVE_SECONDS,),
    )
    row = await cursor.fetchone()
    assert row is not None
    return row


async def get_longest_loop_lag(connection: Connection) -> float:
    """Return the longest `loop_lag` of live workers, in seconds; 0 if there is none."""
    cursor = await connection.execute(
        "select coalesce(max(loop_lag), 0) as seconds from workers"
        " where seen_at > now() - make_interval(secs => %s)",
        (_ALIVE_SECONDS,),
    )
    row = await cursor.fetchone()
    return row["seconds"] if row else 0.0
