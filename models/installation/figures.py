"""The figures of the installation that add up: totals over all processes, and failed runs by workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import LiteralString
from uuid import UUID

import orjson
from sqlalchemy import ARRAY, Column, DateTime, Double, ForeignKey, Integer, Text
from sqlmodel import Field, SQLModel

from database import Connection
from metrics import OTHER, Amounts

MOST_WORKFLOWS = 50
"""The number of failing workflows that are shown by themselves."""


class FigureTotal(SQLModel, table=True):
    """The totals of one series of a figure of `metrics`."""

    __tablename__ = "figures"  # pyright: ignore[reportAssignmentType]
    # Updated every few seconds: room on the page keeps the updates out of the index.
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    name: str = Field(sa_column=Column(Text, primary_key=True))
    labels: list[str] = Field(sa_column=Column(ARRAY(Text), primary_key=True))
    amounts: list[float] = Field(sa_column=Column(ARRAY(Double), nullable=False))


class WorkflowFailures(SQLModel, table=True):
    """The failed runs of a workflow in five minutes; kept for an hour."""

    __tablename__ = "workflow_failures"  # pyright: ignore[reportAssignmentType]

    account_id: UUID = Field(primary_key=True)
    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    slot: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    failed: int = Field(sa_column=Column(Integer, nullable=False))


# All processes write rows in the same order, so that they cannot deadlock.
_ADD = """
insert into figures (name, labels, amounts)
select name, labels, amounts
from json_to_recordset(%s::json) as n (name text, labels text[], amounts float8[]) order by name, labels
on conflict (name, labels) do update set amounts = array(
  select coalesce(former, 0) + coalesce(more, 0)
  from unnest(figures.amounts, excluded.amounts) with ordinality as u (former, more, n) order by n)
"""
_FAILED = """
insert into workflow_failures (account_id, automation_id, slot, failed)
select r.account_id, r.automation_id, date_bin('5 minutes', now(), 'epoch'), count(*)
from runs r join automations a on a.id = r.automation_id
where r.id = any(%s) and r.status = 'failed' group by 1, 2 order by 1, 2
on conflict (account_id, automation_id, slot)
do update set failed = workflow_failures.failed + excluded.failed
"""


async def add(connection: Connection, taken: Sequence[Amounts], failed: Sequence[UUID]) -> None:
    """Add to the totals what a process has observed, and count its failed runs for their workflows.

    Call it in a transaction.
    """
    if taken:
        rows = orjson.dumps([amounts._asdict() for amounts in taken]).decode()
        await connection.execute(_ADD, (rows,))
    if failed:
        await connection.execute(_FAILED, (list(failed),))


async def delete_old_failures(connection: Connection) -> None:
    """Delete the counts of failed runs that are older than an hour."""
    await connection.execute("delete from workflow_failures where slot < now() - interval '65 minutes'")


async def find_totals(connection: Connection) -> list[Amounts]:
    """Return the totals of all series."""
    cursor = await connection.execute("select name, labels, amounts from figures order by name, labels")
    return [Amounts(row["name"], tuple(row["labels"]), row["amounts"]) for row in await cursor.fetchall()]


_FAILING: LiteralString = """
with counted as (
  select automation_id, sum(failed)::int as failed from workflow_failures
  where slot > now() - interval '1 hour' group by 1
), in_order as (select *, row_number() over (order by failed desc, automation_id) as n from counted)
select case when n <= %s then automation_id::text else %s end as workflow, sum(failed)::int as failed
from in_order group by 1
"""


async def count_failed_by_workflow(connection: Connection) -> Mapping[str, int]:
    """Return the failed runs of the last hour by workflow id; beyond 50 workflows those of all others."""
    cursor = await connection.execute(_FAILING, (MOST_WORKFLOWS, OTHER))
    return {row["workflow"]: row["failed"] for row in await cursor.fetchall()}
