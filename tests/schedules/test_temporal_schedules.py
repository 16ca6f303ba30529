"""A workflow runs by itself when its schedule says so: by its Temporal Schedule, which follows its row."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.schedules import ScheduleActivities
from database import Database
from dispatch import schedules as schedule_dispatcher
from models.schedules.scheduling import WORKFLOWS
from notifications import Notifier
from temporal import due_schedules
from tests.automations.engine import until
from tests.schedules.scheduling import HOURLY, Scheduler, completed, schedule, scheduled

HOUR = timedelta(hours=1)


async def test_when_it_is_due_its_schedule_starts_a_run_and_then_says_the_next_time(
    scheduler: Scheduler, notifier: Notifier, client: Client
) -> None:
    workflow = await scheduler.workflow()
    due = await scheduler.due(workflow)
    await scheduler.let_be_due(workflow, datetime.now(UTC) + timedelta(seconds=3))
    come = await scheduler.due(workflow)
    [run] = await completed(scheduler, workflow)
    assert (run.trigger, run.input) == ("schedule", {"scheduled_for": f"{come:%Y-%m-%dT%H:%M:%S}Z"})
    assert run.started_at is not None and run.started_at < come + timedelta(seconds=20)
    assert await scheduler.due(workflow) == due
    found = await scheduled(client, scheduler, workflow)
    assert found.info.num_actions == 1


async def test_its_schedule_follows_what_becomes_of_the_workflow(
    scheduler: Scheduler, notifier: Notifier, client: Client
) -> None:
    workflow = await scheduler.workflow()
    assert not (await scheduled(client, scheduler, workflow)).schedule.state.paused
    await scheduler.change(workflow, {"cron": "0 9 * * *", "timezone": "Asia/Tokyo"})
    assert (await scheduled(client, scheduler, workflow)).info.next_action_times[0].hour == 0
    await scheduler.change(workflow, status="paused")
    assert (await scheduled(client, scheduler, workflow)).schedule.state.paused
    await scheduler.change(workflow)
    assert not (await scheduled(client, scheduler, workflow)).schedule.state.paused


@pytest.mark.parametrize("how", ["deleted", "changed"])
async def test_a_workflow_without_a_schedule_any_more_leaves_neither_schedule_nor_row(
    scheduler: Scheduler, notifier: Notifier, client: Client, how: str
) -> None:
    workflow = await scheduler.workflow()
    await scheduled(client, scheduler, workflow)
    await (scheduler.delete(workflow) if how == "deleted" else scheduler.change(workflow, None))

    async def gone() -> bool:
        return not await scheduler.rows(
            "select 1 from automation_schedules where automation_id = %s", workflow
        )

    await until(gone)
    assert await schedule(client, workflow) is None


async def test_what_its_schedule_has_missed_a_sweep_finds_once(
    scheduler: Scheduler, notifier: Notifier, client: Client
) -> None:
    workflow = await scheduler.workflow()
    due = await scheduler.due(workflow)
    await scheduled(client, scheduler, workflow)
    # Its Schedule knows nothing of this moment: Temporal was away.
    await scheduler.rows(
        "update automation_schedules set anchor = anchor - %s, next_run_at = next_run_at - %s,"
        " scheduled_for = scheduled_for - %s where automation_id = %s",
        *[HOUR + timedelta(minutes=1)] * 3,
        workflow,
    )
    [run] = await completed(scheduler, workflow)
    missed = due - HOUR - timedelta(minutes=1)
    assert run.input == {"scheduled_for": f"{missed:%Y-%m-%dT%H:%M:%S}Z"}
    await scheduled(client, scheduler, workflow)
    assert len(await scheduler.runs(workflow)) == 1


async def test_a_workflow_that_cannot_be_run_keeps_no_other_from_its_run(
    scheduler: Scheduler, notifier: Notifier
) -> None:
    broken, sound = await scheduler.workflow(), await scheduler.workflow()
    now = datetime.now(UTC)
    await scheduler.rows(
        "update automation_schedules set schedule = '{\"every\": 5}' where automation_id = %s", broken
    )
    await scheduler.let_be_due(broken, now - timedelta(minutes=50))
    await scheduler.let_be_due(sound, now - timedelta(minutes=40))
    try:
        await completed(scheduler, sound)
    finally:
        await scheduler.delete(broken)


async def test_a_schedule_that_is_lost_is_made_again_and_one_without_a_workflow_is_removed(
    scheduler: Scheduler, notifier: Notifier, client: Client, database: Database
) -> None:
    workflow, stranger = await scheduler.workflow(), UUID(int=2)
    await scheduled(client, scheduler, workflow)
    await due_schedules.WORKFLOWS.remove(client, workflow)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    await due_schedules.WORKFLOWS.update(client, stranger, scheduler.account_id, at, False)

    async def listed() -> bool:
        known = await due_schedules.WORKFLOWS.list_all(client)
        return stranger in known and workflow not in known

    await until(listed)
    assert await ScheduleActivities(database, client, notifier).reconcile_schedules() >= 1
    await scheduled(client, scheduler, workflow)
    assert await schedule(client, stranger) is None


async def test_those_of_many_workflows_are_updated_although_one_cannot_be(
    scheduler: Scheduler, notifier: Notifier, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = due_schedules.DueSchedules.update
    bad: UUID | None = None

    async def refuse_one(
        self: due_schedules.DueSchedules, client: Client, id: UUID, account_id: UUID, at: datetime | None,
        is_known: bool,
    ) -> None:  # fmt: skip
        if bad is None or id == bad:
            raise RPCError("refused", RPCStatusCode.INVALID_ARGUMENT, b"")
        await update(self, client, id, account_id, at, is_known)

    monkeypatch.setattr(due_schedules.DueSchedules, "update", refuse_one)
    bad, *others = [await scheduler.workflow() for _ in range(2 * schedule_dispatcher._UPDATED_AT_ONCE)]  # pyright: ignore[reportPrivateUsage]
    await asyncio.gather(*(scheduled(client, scheduler, workflow) for workflow in others))
    assert (await scheduler.row(bad))["scheduled_for"] is None
    await scheduler.delete(bad)


async def test_a_row_that_is_being_changed_is_told_anew(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow(HOURLY)
    async with scheduler.database.transaction() as changing, scheduler.database.transaction() as telling:
        await changing.execute(
            "select from automation_schedules where automation_id = %s for update", (workflow,)
        )
        due = await WORKFLOWS.lock_schedules(telling, [workflow])
        await WORKFLOWS.mark_scheduled(telling, due)
    assert (await scheduler.row(workflow))["scheduled_for"] is None
    async with scheduler.database.connection() as connection:
        assert workflow in await WORKFLOWS.find_unscheduled(connection, 1000)
