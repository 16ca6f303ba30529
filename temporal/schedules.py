"""The Schedules of the service's own chores: created if missing, updated if they differ."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import Priority

from temporal.client import TASK_QUEUE, unless_missing
from workflows.maintenance import Maintenance
from workflows.messages import (
    PURGE_JOBS,
    PURGE_LOOKUPS,
    PURGE_MONITORS,
    RECONCILE_SCHEDULES,
    REFRESH_DATASETS,
    TEND_HISTORY,
)

_HOUR = timedelta(hours=1)
_EVERY = {
    REFRESH_DATASETS: timedelta(days=1), PURGE_LOOKUPS: _HOUR, TEND_HISTORY: _HOUR, PURGE_MONITORS: _HOUR,
    RECONCILE_SCHEDULES: _HOUR, PURGE_JOBS: _HOUR,
}  # fmt: skip
_BULK_PRIORITY = 4


async def ensure(client: Client) -> None:
    """Create or update the Schedule of every chore. Safe to call from many processes, at every start."""
    for task, every in _EVERY.items():
        schedule = _schedule(task, every)

        def replace_schedule(current: ScheduleUpdateInput, schedule: Schedule = schedule) -> ScheduleUpdate:
            # An operator who paused it did so on purpose.
            state = current.description.schedule.state
            return ScheduleUpdate(dataclasses.replace(schedule, state=state))

        try:
            await client.create_schedule(f"maintenance/{task}", schedule)
        except ScheduleAlreadyRunningError:
            await client.get_schedule_handle(f"maintenance/{task}").update(replace_schedule)
    # A server that was away, or is new, may have Schedules that differ from the rows.
    await client.get_schedule_handle(f"maintenance/{RECONCILE_SCHEDULES}").trigger()


async def are_there(client: Client) -> bool:
    """Return whether the server has these Schedules: it may have lost its data, or somebody deleted one."""
    with unless_missing():
        for task in _EVERY:
            await client.get_schedule_handle(f"maintenance/{task}").describe()
        return True
    return False


def _schedule(task: str, every: timedelta) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(
            Maintenance.run,
            task,
            id=f"maintenance/{task}",
            task_queue=TASK_QUEUE,
            priority=Priority(priority_key=_BULK_PRIORITY),
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=every / 10),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=_HOUR),
    )
