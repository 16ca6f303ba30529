"""Schedules as triggers: the run that is accepted when a workflow is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from database import Connection
from language.triggers import Schedule, ScheduleTrigger
from models.automations import run_targets
from models.errors import Conflict, NotFound
from models.runs import acceptance
from models.runs.acceptance import RunAcceptance, RunRequest
from models.schedules import schedules
from models.schedules.automation_schedules import SHOWN, calendar_of
from models.schedules.calendars import Calendar
from models.schedules.scheduling import DUE_BY

_CATCH_UP = timedelta(hours=1)


async def accept_due(
    connection: Connection, automation_id: UUID, come: datetime | None = None
) -> RunAcceptance | None:
    """Accept the run of a workflow that is due; call it in a transaction.

    Several missed times give one run, for the last of them, if that is no more than an hour ago. Repeated or
    concurrent calls accept the same run. Notify `models.runs.runs.QUEUED_CHANNEL` after the commit.

    Args:
        connection: inside a transaction.
        automation_id: the workflow; nothing happens if it is not due.
        come: the current time of its Schedule, whose clock may be ahead of the database's.

    Returns:
        The run; None if there is none.
    """
    cursor = await connection.execute(
        f"select * from automation_schedules where automation_id = %s and next_run_at <= {DUE_BY}",
        (automation_id, come),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    calendar = calendar_of(Schedule.model_validate(row["schedule"]), row["anchor"])
    moment, following = _last_due(calendar, row["next_run_at"], datetime.now(UTC))
    accepted = None if moment is None else await _accept(connection, row["account_id"], automation_id, moment)
    # Last, because a change of the workflow locks the workflow before this row; a time that was changed
    # meanwhile stays.
    await connection.execute(
        "update automation_schedules set next_run_at = %s, next_runs = %s"
        " where automation_id = %s and next_run_at = %s",
        (
            following,
            [following, *calendar.following(following, SHOWN - 1)],
            automation_id,
            row["next_run_at"],
        ),
    )
    return accepted


def _last_due(calendar: Calendar, first: datetime, now: datetime) -> tuple[datetime | None, datetime]:
    """Return the last time that is due and not too long ago, and the one after it; `first` is due."""
    now = max(now, first)
    if first < now - _CATCH_UP:
        first = calendar.next_after(now - _CATCH_UP)
    last, following = None, first
    while following <= now:
        last, following = following, calendar.next_after(following)
    return last, following


async def _accept(
    connection: Connection, account_id: UUID, automation_id: UUID, moment: datetime
) -> RunAcceptance | None:
    try:
        target = await run_targets.event_target(connection, account_id, automation_id)
    except (NotFound, Conflict):
        return None  # paused or deleted a moment ago
    if not isinstance(target.trigger, ScheduleTrigger):
        return None
    payload, key = schedules.payload_at(target.trigger, moment), f"schedule/{schedules.format_moment(moment)}"
    event = RunRequest(target, "schedule", payload, dedupe_key=key)
    [accepted] = await acceptance.accept(connection, [event])
    return accepted
