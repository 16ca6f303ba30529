"""The counts of what happened to an account, by one and five minutes, hour and day.

What happens is first stored as entries, which no other transaction waits for. A trigger of the table `runs`
inserts those of runs that end, and processes insert the others every few seconds. A sweep deletes entries and
adds them to `stats` in one transaction, so each counts once, whenever it was committed. Readers add both up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

import orjson
from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, Identity, Index, SmallInteger, Text
from sqlmodel import Field, SQLModel

from database import Connection
from metrics import Tally

Grain = Literal["1m", "5m", "1h", "1d"]
"""The length of a slot, for which one sum is stored."""

ENTRIES_AT_ONCE = 20_000
# A constant that nothing else in the database uses: the process that adds entries up holds this lock.
_LOCK = 0x7665_6465_7374_6174


class StatEntry(SQLModel, table=True):
    """Something that was counted and is not yet in `stats`.

    There is no foreign key: a run that ends locks no account. Entries of deleted accounts are dropped.
    """

    __tablename__ = "stat_entries"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"autovacuum_vacuum_scale_factor": 0.01}},)

    account_id: UUID = Field(primary_key=True)
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    minute: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    figure: str = Field(sa_type=Text)
    subject: str = Field(sa_type=Text)
    outcome: str = Field(sa_type=Text)
    code: str = Field(sa_type=Text)
    bucket: int = Field(sa_type=SmallInteger)
    amount: int = Field(sa_type=BigInteger)


class Stat(SQLModel, table=True):
    """A sum of entries over a slot, such as an hour.

    Attributes:
        figure: what is counted: `runs`, `lookups`, `deliveries`, `credits`, `changes`; `durations` are the
            completed and failed runs again, by the bucket of their duration.
        part: whether it is that of `all`, or of one `subject` or one `code`.
        slot: when the slot begins, in UTC.
        subject: the id of a workflow, endpoint or monitor, the name of a source, or the code of an error.
        outcome: how it ended; empty for durations.
        bucket: see `models.stats.durations`; 0 for what is no duration.
    """

    __tablename__ = "stats"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        # Rows are inserted in the order of their time, and old ones are deleted by it.
        Index("ix_stats_slot", "slot", postgresql_using="brin"),
        {"postgresql_with": {"fillfactor": 80}},
    )

    account_id: UUID = Field(
        sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True)
    )
    grain: str = Field(sa_column=Column(Text, primary_key=True))
    figure: str = Field(sa_column=Column(Text, primary_key=True))
    part: str = Field(sa_column=Column(Text, primary_key=True))
    slot: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    subject: str = Field(sa_column=Column(Text, primary_key=True))
    outcome: str = Field(sa_column=Column(Text, primary_key=True))
    bucket: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    amount: int = Field(sa_type=BigInteger)


_ADD: LiteralString = """
insert into stat_entries (account_id, minute, figure, subject, outcome, code, bucket, amount)
select account_id, date_trunc('minute', now(), 'UTC'), figure, subject, outcome, '', 0, amount
from json_to_recordset(%s::json)
  as n (account_id uuid, figure text, subject text, outcome text, amount bigint)
"""


async def add(connection: Connection, tallies: Iterable[Tally]) -> None:
    """Add entries for this minute."""
    rows: list[dict[str, Any]] = [tally._asdict() for tally in tallies]
    if rows:
        await connection.execute(_ADD, (orjson.dumps(rows).decode(),))


PARTS: LiteralString = """
  select t.figure, 'all' as part, '' as subject, t.outcome, 0::smallint as bucket
  union all select t.figure, 'subject', t.subject, t.outcome, 0 where t.subject <> ''
  union all select t.figure, 'code', t.code, t.outcome, 0 where t.code <> ''
  union all select 'durations', 'all', '', '', t.bucket where t.bucket > 0 and t.outcome <> 'cancelled'
  union all select 'durations', 'subject', t.subject, '', t.bucket
    where t.bucket > 0 and t.outcome <> 'cancelled'
"""
"""Query of the sums to which an entry `t` belongs."""
_ROLL_UP: LiteralString = f"""
with taken as (
  delete from stat_entries where ctid = any(array(select ctid from stat_entries limit %s)) returning *
), joined as materialized (
  select account_id, minute, figure, subject, outcome, code, bucket, sum(amount) as amount,
    count(*) as entries
  from taken group by 1, 2, 3, 4, 5, 6, 7
), summed as (
  select t.account_id, g.grain, p.figure, p.part, date_bin(g.width, t.minute, 'epoch') as slot, p.subject,
    p.outcome, p.bucket, sum(t.amount) as amount
  from joined t join accounts a on a.id = t.account_id
  cross join (values ('1m', interval '1 minute'), ('5m', '5 minutes'), ('1h', '1 hour'), ('1d', '1 day'))
    as g (grain, width)
  cross join lateral ({PARTS}) p
  group by 1, 2, 3, 4, 5, 6, 7, 8
), stored as (
  insert into stats (account_id, grain, figure, part, slot, subject, outcome, bucket, amount)
  select * from summed order by 1, 2, 3, 4, 5, 6, 7, 8
  on conflict (account_id, grain, figure, part, slot, subject, outcome, bucket)
  do update set amount = stats.amount + excluded.amount
)
select coalesce(sum(entries), 0)::int as entries from joined
"""


async def roll_up(connection: Connection, most: int = ENTRIES_AT_ONCE) -> int:
    """Add entries to the statistics, and delete them; call it in a transaction.

    Returns:
        The number of entries; 0 if another process does this at the moment.
    """
    cursor = await connection.execute("select pg_try_advisory_xact_lock(%s) as free", (_LOCK,))
    row = await cursor.fetchone()
    if not row or not row["free"]:
        return 0
    cursor = await connection.execute(_ROLL_UP, (most,))
    row = await cursor.fetchone()
    return row["entries"] if row else 0


_DELETE_OLD = (
    "delete from stats where slot < now() - interval '2 days' and grain in ('1m', '5m')",
    "delete from stats where slot < now() - interval '90 days'",
)


async def delete_old(connection: Connection) -> None:
    """Delete the sums of minutes that are older than two days, and all that are older than 90 days."""
    for statement in _DELETE_OLD:
        await connection.execute(statement)
