"""The schedules of workflows: a row for each that has been active with one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Json
from sqlalchemy import JSON, Boolean, Column, DateTime, ForeignKey, Index
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection
from language.definition import Definition, Status
from language.triggers import Schedule, ScheduleTrigger, Trigger
from models.schedules.calendars import Calendar

SHOWN = 5
"""The number of next times of a workflow that are shown."""


class AutomationSchedule(SQLModel, table=True):
    """The schedule of a workflow.

    Attributes:
        schedule: that of the workflow's current version, or of the version that was last active.
        anchor: the moment from which the schedule counts.
        next_run_at: when it is due; null while the workflow is not active.
        next_runs: that time and the following ones, as many as are shown.
        scheduled_for: the `next_run_at` that its Temporal Schedule last got.
        ended: whether the workflow is deleted or has another trigger; the row is deleted after its Schedule.
    """

    __tablename__ = "automation_schedules"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index(
            "ix_automation_schedules_next_run_at", "next_run_at", postgresql_where="next_run_at is not null"
        ),
        Index(
            "ix_automation_schedules_unscheduled",
            "automation_id",
            postgresql_where="scheduled_for is distinct from next_run_at",
        ),
        Index("ix_automation_schedules_ended", "automation_id", postgresql_where="ended"),
        {"postgresql_with": {"fillfactor": 50}},
    )

    automation_id: UUID = Field(
        sa_column=Column(ForeignKey("automations.id", ondelete="CASCADE"), primary_key=True)
    )
    account_id: UUID
    schedule: Any = Field(sa_column=Column(JSON, nullable=False))
    anchor: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    next_run_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    next_runs: list[datetime] = Field(sa_column=Column(ARRAY(DateTime(timezone=True)), nullable=False))
    scheduled_for: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    ended: bool = Field(sa_column=Column(Boolean, nullable=False, server_default="false"))


def calendar_of(schedule: Schedule, anchor: datetime) -> Calendar:
    """Return the calendar of a schedule in which `models.schedules.schedules` finds no errors."""
    every = None if schedule.every is None else timedelta(**schedule.every.model_dump(exclude_none=True))
    return Calendar(schedule.frequency, schedule.cron, schedule.timezone or "UTC", anchor, every)


def next_times(trigger: Trigger) -> list[datetime]:
    """Return the next times of a workflow if it became active now; none without a schedule."""
    if not isinstance(trigger, ScheduleTrigger):
        return []
    now = datetime.now(UTC)
    return calendar_of(trigger.schedule, now).following(now, SHOWN)


async def save(
    connection: Connection, account_id: UUID, automation_id: UUID, definition: Definition, status: Status
) -> None:
    """Store the schedule of a definition; call it in the transaction that stores the definition.

    An unchanged schedule continues. A new one counts from now, and so does a period whose workflow becomes
    active again.
    """
    trigger = definition.trigger
    if not isinstance(trigger, ScheduleTrigger):
        await end(connection, automation_id)
        return
    if status != "active":
        await connection.execute(
            "update automation_schedules set next_run_at = null, next_runs = '{}' where automation_id = %s",
            (automation_id,),
        )
        return
    cursor = await connection.execute(
        "select schedule, anchor, next_run_at from automation_schedules"
        " where automation_id = %s and not ended for no key update",
        (automation_id,),
    )
    former = await cursor.fetchone()
    now = datetime.now(UTC)
    anchor = now
    if former is not None and Schedule.model_validate(former["schedule"]) == trigger.schedule:
        if former["next_run_at"] is not None:
            return
        anchor = now if trigger.schedule.every else former["anchor"]
    times = calendar_of(trigger.schedule, anchor).following(now, SHOWN)
    await connection.execute(
        "insert into automation_schedules"
        " (automation_id, account_id, schedule, anchor, next_run_at, next_runs)"
        " values (%s, %s, %s, %s, %s, %s) on conflict (automation_id) do update set"
        " schedule = excluded.schedule, anchor = excluded.anchor, next_run_at = excluded.next_run_at,"
        " next_runs = excluded.next_runs, scheduled_for = null, ended = false",
        (
            automation_id,
            account_id,
            Json(trigger.schedule.model_dump(mode="json", exclude_none=True)),
            anchor,
            times[0],
            times,
        ),
    )


async def end(connection: Connection, automation_id: UUID) -> None:
    """End the schedule of a workflow; call it in the transaction of the cause."""
    await connection.execute(
        "update automation_schedules set ended = true, next_run_at = null, next_runs = '{}'"
        " where automation_id = %s",
        (automation_id,),
    )


async def purge_ended(connection: Connection, automation_id: UUID) -> None:
    """Delete a row whose Temporal Schedule was deleted, unless the workflow has a schedule again."""
    await connection.execute(
        "delete from automation_schedules where automation_id = %s and ended", (automation_id,)
    )
