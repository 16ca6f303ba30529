"""The Schedule of each monitor: it says when the monitor is due next, and is told again after each time.

Calendars are ours (`models.calendars`): the 31st, or every second week in a zone whose clocks change, is
nothing that Temporal can say. Its Schedule holds the very next moment; what a row says is the truth.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
)
from temporalio.common import Priority, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from temporal.client import TASK_QUEUE
from temporal.starts import ACCOUNT, KIND
from workflows.messages import SCHEDULED_MONITOR

_PREFIX = "monitor/"
_CATCH_UP = timedelta(hours=1)
_PRIORITY = 4


async def tell(client: Client, monitor_id: UUID, account_id: UUID, at: datetime | None) -> None:
    """Have a monitor's Schedule say when it is due; without a time it is paused.

    Raises:
        temporalio.service.RPCError: the server is away.
    """
    schedule, id = _schedule(monitor_id, at), f"{_PREFIX}{monitor_id}"
    attributes = TypedSearchAttributes(
        [SearchAttributePair(ACCOUNT, str(account_id)), SearchAttributePair(KIND, "monitor")]
    )
    try:
        await client.create_schedule(id, schedule, search_attributes=attributes)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(id).update(lambda _: ScheduleUpdate(schedule))


async def remove(client: Client, monitor_id: UUID) -> None:
    """Remove a monitor's Schedule, if there is one."""
    try:
        await client.get_schedule_handle(f"{_PREFIX}{monitor_id}").delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def list_all(client: Client) -> dict[UUID, datetime | None]:
    """All monitors that have a Schedule, each with when it starts them; None while it is paused."""
    found: dict[UUID, datetime | None] = {}
    async for one in await client.list_schedules():
        if one.id.startswith(_PREFIX) and one.schedule is not None:
            times = one.schedule.spec.calendars
            at = None if one.schedule.state.paused or not times else _moment(times[0])
            found[UUID(one.id.removeprefix(_PREFIX))] = at
    return found


def _schedule(monitor_id: UUID, at: datetime | None) -> Schedule:
    # One that is paused keeps a moment that never comes.
    moment = datetime(2099, 1, 1, tzinfo=UTC) if at is None else at.astimezone(UTC)
    return Schedule(
        action=ScheduleActionStartWorkflow(
            SCHEDULED_MONITOR,
            args=[monitor_id, moment],
            id=f"monitor-due/{monitor_id}",
            task_queue=TASK_QUEUE,
            priority=Priority(priority_key=_PRIORITY),
        ),
        spec=ScheduleSpec(calendars=[_calendar(moment)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=_CATCH_UP),
        state=ScheduleState(paused=at is None, note="The monitor is paused." if at is None else None),
    )


def _calendar(moment: datetime) -> ScheduleCalendarSpec:
    return ScheduleCalendarSpec(
        year=[ScheduleRange(moment.year)],
        month=[ScheduleRange(moment.month)],
        day_of_month=[ScheduleRange(moment.day)],
        hour=[ScheduleRange(moment.hour)],
        minute=[ScheduleRange(moment.minute)],
        second=[ScheduleRange(moment.second)],
    )


def _moment(spec: ScheduleCalendarSpec) -> datetime:
    parts = (spec.year, spec.month, spec.day_of_month, spec.hour, spec.minute, spec.second)
    return datetime(*(part[0].start for part in parts), tzinfo=UTC)
