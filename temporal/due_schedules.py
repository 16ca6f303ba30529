"""The Schedules of users' monitors and workflows: each contains one moment, and is updated after it.

Calendars are ours (`models.schedules.calendars`): Temporal cannot express the 31st, or every second week
across changes of the clock. A Schedule contains only the next moment; the row is the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
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

from temporal.attributes import ACCOUNT, KIND
from temporal.client import TASK_QUEUE, unless_missing
from workflows.messages import SCHEDULED_MONITOR, SCHEDULED_TRIGGER

_CATCH_UP = timedelta(hours=1)
_PRIORITY = 4


@dataclass(frozen=True)
class DueSchedules:
    """The Schedules of one kind of rows.

    Attributes:
        kind: their value of Temporal's search attribute.
        prefix: of the ids of the Schedules, before the id of the row.
        workflow: the workflow that they start, with the row's id and the moment.
        workflow_prefix: of the ids of those workflows, before the row's id and the moment.
    """

    kind: str
    prefix: str
    workflow: str
    workflow_prefix: str

    async def update(
        self, client: Client, id: UUID, account_id: UUID, at: datetime | None, is_known: bool
    ) -> None:
        """Create or update the Schedule of a row with its due time; without a time it is paused.

        Args:
            client: of the server.
            id: the row.
            account_id: its owner.
            at: the time.
            is_known: whether it probably has a Schedule: then one request less is made.

        Raises:
            temporalio.service.RPCError: the server is away.
        """
        schedule, schedule_id = self._schedule(id, at), f"{self.prefix}{id}"
        handle = client.get_schedule_handle(schedule_id)
        if is_known:
            with unless_missing():
                return await handle.update(lambda _: ScheduleUpdate(schedule))
        attributes = TypedSearchAttributes(
            [SearchAttributePair(ACCOUNT, str(account_id)), SearchAttributePair(KIND, self.kind)]
        )
        try:
            await client.create_schedule(schedule_id, schedule, search_attributes=attributes)
        except ScheduleAlreadyRunningError:
            await handle.update(lambda _: ScheduleUpdate(schedule))

    async def remove(self, client: Client, id: UUID) -> None:
        """Delete the Schedule of a row, if there is one."""
        with unless_missing():
            await client.get_schedule_handle(f"{self.prefix}{id}").delete()

    async def list_all(self, client: Client) -> dict[UUID, datetime | None]:
        """Return all rows that have a Schedule, each with its next time; None while it is paused."""
        found: dict[UUID, datetime | None] = {}
        async for one in await client.list_schedules():
            if one.id.startswith(self.prefix) and one.schedule is not None:
                times = one.schedule.spec.calendars
                at = None if one.schedule.state.paused or not times else _moment(times[0])
                found[UUID(one.id.removeprefix(self.prefix))] = at
        return found

    def _schedule(self, id: UUID, at: datetime | None) -> Schedule:
        # A paused Schedule has a moment that never comes.
        moment = datetime(2099, 1, 1, tzinfo=UTC) if at is None else at.astimezone(UTC)
        note = f"The {self.prefix.removesuffix('/')} is paused." if at is None else None
        return Schedule(
            action=ScheduleActionStartWorkflow(
                self.workflow,
                args=[id, moment],
                id=f"{self.workflow_prefix}{id}",
                task_queue=TASK_QUEUE,
                priority=Priority(priority_key=_PRIORITY),
            ),
            spec=ScheduleSpec(calendars=[_calendar(moment)]),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=_CATCH_UP),
            state=ScheduleState(paused=at is None, note=note),
        )


MONITORS = DueSchedules("monitor", "monitor/", SCHEDULED_MONITOR, "monitor-due/")
WORKFLOWS = DueSchedules("automation", "workflow/", SCHEDULED_TRIGGER, "trigger/")


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
