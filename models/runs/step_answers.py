"""Step answers: outputs of steps that come from outside, or from counting, before they are recorded.

The first answer to a step counts, from a person who resumes it or from the clock when its time is over. It is
stored until its run ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Json
from sqlalchemy import JSON, BigInteger, Column, DateTime, ForeignKey, Index, Text
from sqlmodel import Field, SQLModel

from database import Connection

_AT_ONCE = 1000


class RunAnswer(SQLModel, table=True):
    """The answer to a step of an unfinished run: the step's future output."""

    __tablename__ = "run_answers"  # pyright: ignore[reportAssignmentType]

    run_id: UUID = Field(primary_key=True)
    step_id: str = Field(sa_column=Column(Text, primary_key=True))
    output: Any = Field(sa_column=Column(JSON, nullable=False))
    answered_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


class RememberedKey(SQLModel, table=True):
    """A key that a workflow remembers: its first time, its expiry, and its count."""

    __tablename__ = "remembered_keys"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_remembered_keys_expires_at", "expires_at"),)

    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    key: str = Field(sa_column=Column(Text, primary_key=True))
    first_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    expires_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    count: int = Field(sa_column=Column(BigInteger, nullable=False))


async def answer(connection: Connection, run_id: UUID, step_id: str, output: Any) -> bool:
    """Store the answer to a step; return whether it is the first."""
    cursor = await connection.execute(
        "insert into run_answers (run_id, step_id, output, answered_at) values (%s, %s, %s, now())"
        " on conflict do nothing",
        (run_id, step_id, Json(output)),
    )
    return cursor.rowcount == 1


async def replace(connection: Connection, run_id: UUID, step_id: str, output: Any) -> None:
    """Replace the answer to a step, in the transaction that has stored it."""
    await connection.execute(
        "update run_answers set output = %s where run_id = %s and step_id = %s",
        (Json(output), run_id, step_id),
    )


async def find(connection: Connection, run_id: UUID, step_id: str) -> Any:
    """Return the answer to a step; None if there is none."""
    cursor = await connection.execute(
        "select output from run_answers where run_id = %s and step_id = %s", (run_id, step_id)
    )
    row = await cursor.fetchone()
    return None if row is None else row["output"]


async def wake(connection: Connection, run_ids: Collection[UUID]) -> None:
    """Make runs check for new answers, in the transaction that stores these.

    Notify `models.runs.runs.QUEUED_CHANNEL` after the commit.
    """
    await connection.execute("select wake_runs_2(%s)", (sorted(run_ids),))


@dataclass(frozen=True)
class Counting:
    """The keys that a workflow counts.

    Attributes:
        automation_id: the workflow.
        keys: the keys to count, each once.
        ttl: the seconds after which a key is forgotten.
        renew: whether the seconds count from the key's last time, instead of its first.
    """

    automation_id: UUID
    keys: Sequence[str]
    ttl: float
    renew: bool = False


# In the order of the keys, so that two runs that count the same keys cannot deadlock.
_REMEMBER = """
insert into remembered_keys as k (automation_id, key, first_at, expires_at, count)
select %(automation)s, key, now(), now() + make_interval(secs => %(ttl)s), 1
from unnest(%(keys)s::text[]) as key order by key
on conflict (automation_id, key) do update set
  count = case when k.expires_at <= now() then 1 else k.count + 1 end,
  first_at = case when k.expires_at <= now() then excluded.first_at else k.first_at end,
  expires_at = case when %(renew)s or k.expires_at <= now() then excluded.expires_at else k.expires_at end
returning key, count > 1 as seen, iso_time(first_at) as first_at, count
"""


async def remember(
    connection: Connection, counting: Counting, *, run_id: UUID, step_id: str, several: bool = False
) -> Any:
    """Count keys of a workflow, once for each step of a run, even if the call is repeated.

    Args:
        connection: outside a transaction.
        counting: the keys and how to count them.
        run_id: the run.
        step_id: its step.
        several: whether to return the form for several keys.

    Returns:
        `{"seen", "first_at", "count"}` of a single key: whether it was counted before, its first time, and
        its count including this one. For several keys `{"new", "known"}`: those not counted before, and the
        others.
    """
    async with connection.transaction():
        # A concurrent call for the same step waits here.
        if not await answer(connection, run_id, step_id, None):
            return await find(connection, run_id, step_id)
        values = {
            "automation": counting.automation_id, "keys": list(counting.keys), "ttl": counting.ttl,
            "renew": counting.renew,
        }  # fmt: skip
        rows = {row.pop("key"): row for row in await (await connection.execute(_REMEMBER, values)).fetchall()}
        if several:
            counted: Any = {
                "new": [key for key in counting.keys if not rows[key]["seen"]],
                "known": [key for key in counting.keys if rows[key]["seen"]],
            }
        else:
            counted = rows[counting.keys[0]]
        await replace(connection, run_id, step_id, counted)
        return counted


async def purge(connection: Connection) -> None:
    """Delete answers and prompts of ended runs, and keys that have expired."""
    for statement in (
        "delete from run_answers where (run_id, step_id) in (select run_id, step_id from run_answers a"
        " where not exists (select from run_work w where w.run_id = a.run_id) limit %s)",
        "delete from run_prompts where (run_id, step_id) in (select run_id, step_id from run_prompts p"
        " where not exists (select from run_work w where w.run_id = p.run_id) limit %s)",
        "delete from remembered_keys where (automation_id, key) in"
        " (select automation_id, key from remembered_keys where expires_at < now() order by expires_at"
        "  limit %s for update skip locked)",
    ):
        gone = _AT_ONCE
        while gone == _AT_ONCE:
            gone = (await connection.execute(statement, (_AT_ONCE,))).rowcount
