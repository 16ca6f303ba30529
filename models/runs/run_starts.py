"""The number of runs of a workflow that have begun, and the time of the last: buffered, then written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey
from sqlmodel import Field, SQLModel

from database import Connection


class RunStarts(SQLModel, table=True):
    """The count of begun runs of a workflow."""

    __tablename__ = "run_starts"  # pyright: ignore[reportAssignmentType]
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    runs: int = Field(sa_type=BigInteger)
    last_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


async def add(connection: Connection, begun: Mapping[UUID, int]) -> None:
    """Add runs that have begun, by workflow. A workflow that was deleted meanwhile is skipped."""
    ids = sorted(begun)
    await connection.execute(
        "insert into run_starts (automation_id, runs, last_at)"
        " select n.id, n.runs, now() from unnest(%s::uuid[], %s::int[]) as n (id, runs)"
        " where exists (select from automations a where a.id = n.id) order by n.id"
        " on conflict (automation_id) do update"
        " set runs = run_starts.runs + excluded.runs, last_at = excluded.last_at",
        (ids, [begun[one] for one in ids]),
    )
