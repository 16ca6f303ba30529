"""Which rows are scheduled and started next: those of each account in turn. No worker takes them here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from models.runs import schedule_triggers
from models.schedules.scheduling import WORKFLOWS
from tests.schedules.conftest import new_scheduler
from tests.schedules.scheduling import Scheduler


async def make(scheduler: Scheduler, count: int, seconds_late: float, *, is_told: bool) -> list[UUID]:
    """Make workflows that are due; tell whether their Schedules have that time."""
    made = [await scheduler.workflow() for _ in range(count)]
    async with scheduler.database.connection() as connection:
        await connection.execute(
            "update automation_schedules set next_run_at = now() - make_interval(secs => %s)"
            " where automation_id = any(%s)",
            (seconds_late, made),
        )
        if is_told:
            await connection.execute(
                "update automation_schedules set scheduled_for = next_run_at where automation_id = any(%s)",
                (made,),
            )
    return made


async def test_an_account_with_many_rows_does_not_come_before_another(scheduler: Scheduler) -> None:
    other = await new_scheduler(scheduler.database, scheduler.keyring)
    await make(scheduler, 20, 60, is_told=False)
    [late] = await make(other, 1, 1, is_told=False)
    async with scheduler.database.connection() as connection:
        assert late in await WORKFLOWS.find_unscheduled(connection, 2)
        assert late in await WORKFLOWS.find_due(connection, seconds_late=30, limit=2)


async def test_a_row_whose_schedule_has_its_time_is_left_to_it_for_a_while(scheduler: Scheduler) -> None:
    [told] = await make(scheduler, 1, 5, is_told=True)
    [untold] = await make(scheduler, 1, 5, is_told=False)
    [overdue] = await make(scheduler, 1, 31, is_told=True)
    async with scheduler.database.connection() as connection:
        due = await WORKFLOWS.find_due(connection, seconds_late=30, limit=1000)
    assert {untold, overdue} <= {*due} and told not in due


async def test_whoever_triggers_a_schedule_by_hand_uses_up_no_later_run(scheduler: Scheduler) -> None:
    """A clock that is a minute ahead of the database's may start a run."""
    [far] = await make(scheduler, 1, -3600, is_told=True)
    [near] = await make(scheduler, 1, -60, is_told=True)
    accepted: dict[UUID, bool] = {}
    for workflow, seconds in ((far, 3600), (near, 60)):
        async with scheduler.database.transaction() as connection:
            come = datetime.now(UTC) + timedelta(seconds=seconds + 1)
            accepted[workflow] = await schedule_triggers.accept_due(connection, workflow, come) is not None
    assert accepted == {far: False, near: True}
