"""A workflow with a schedule is due at its times: each is one run, and what is missed for long is none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from activities.schedules import ScheduleActivities
from database import Database
from notifications import Notifier
from tests.automations.engine import until
from tests.schedules.scheduling import HOURLY, Scheduler

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
DAILY = {"frequency": "daily", "timezone": "Europe/Berlin"}


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


async def test_a_run_that_is_due_has_the_moment_as_its_trigger(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow()
    await scheduler.move(workflow, -HOUR)
    due = await scheduler.due(workflow)
    assert await scheduler.accept_due(workflow)
    [run] = await scheduler.runs(workflow)
    assert (run.trigger, run.input) == ("schedule", {"scheduled_for": iso(due)})
    assert await scheduler.due(workflow) == due + HOUR


@pytest.mark.parametrize("input", [{"list": "vip"}, [1, 2], "all", False], ids=repr)
async def test_a_run_that_is_due_has_the_input_of_the_trigger_if_there_is_one(
    scheduler: Scheduler, input: object
) -> None:
    workflow = await scheduler.workflow(input=input)
    await scheduler.move(workflow, -HOUR)
    await scheduler.accept_due(workflow)
    [run] = await scheduler.runs(workflow)
    assert run.input == input


async def test_those_who_come_for_a_moment_together_accept_one_run(
    scheduler: Scheduler, database: Database
) -> None:
    workflow = await scheduler.workflow()
    await scheduler.move(workflow, -HOUR)
    due = await scheduler.due(workflow)
    accepted = await asyncio.gather(*(scheduler.accept_due(workflow, due) for _ in range(5)))
    assert [one for one in accepted if one] and len(await scheduler.runs(workflow)) == 1


async def test_who_comes_for_one_workflow_accepts_the_runs_of_all_that_are_due(
    scheduler: Scheduler, database: Database, client: Client
) -> None:
    come, due, broken, later = [await scheduler.workflow() for _ in range(4)]
    for workflow in (come, due, broken):
        await scheduler.move(workflow, -HOUR)
    await scheduler.rows(
        "update automation_schedules set schedule = '5', next_run_at = next_run_at - interval '1 minute'"
        " where automation_id = %s",
        broken,
    )
    activities = ScheduleActivities(database, client, Notifier(database))
    await activities.accept_scheduled_run(come, await scheduler.due(come))
    assert [len(await scheduler.runs(one)) for one in (come, due, broken, later)] == [1, 1, 0, 0]
    await scheduler.delete(broken)


async def test_a_workflow_can_be_changed_while_its_run_is_accepted(
    scheduler: Scheduler, database: Database
) -> None:
    limited = {"concurrency": {"limit": 5, "on_limit": "skip"}}
    workflow = await scheduler.workflow(more=limited)
    await scheduler.move(workflow, -HOUR)
    due = await scheduler.due(workflow)
    async with database.transaction() as changing:
        await changing.execute("update automations set updated_at = now() where id = %s", (workflow,))
        accepting = asyncio.create_task(scheduler.accept_due(workflow, due))
        await until(lambda: _waits_for_lock(scheduler))
        await changing.execute("set local lock_timeout = '5s'")
        await changing.execute(
            "update automation_schedules set next_runs = '{}' where automation_id = %s", (workflow,)
        )
    assert await accepting and await scheduler.due(workflow) == due + HOUR


async def _waits_for_lock(scheduler: Scheduler) -> bool:
    return bool(
        await scheduler.rows(
            "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
    )


async def test_a_moment_that_comes_again_by_its_row_is_the_same_run(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow()
    await scheduler.move(workflow, -HOUR)
    due = await scheduler.due(workflow)
    first = await scheduler.accept_due(workflow)
    await scheduler.let_be_due(workflow, due)
    again = await scheduler.accept_due(workflow)
    assert first and again and (again.run_id, again.repeated) == (first.run_id, True)
    assert len(await scheduler.runs(workflow)) == 1


async def test_a_workflow_that_is_not_due_has_no_run(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow()
    late = await scheduler.due(workflow) - HOUR
    assert await scheduler.accept_due(workflow, late) is None
    assert await scheduler.runs(workflow) == []


async def test_a_schedule_comes_in_time_where_the_clock_of_the_database_is_behind(
    scheduler: Scheduler,
) -> None:
    workflow = await scheduler.workflow({"every": {"minutes": 1}})
    due = await scheduler.due(workflow)
    assert await scheduler.accept_due(workflow, due)
    assert await scheduler.due(workflow) == due + MINUTE


async def test_a_run_under_way_does_not_keep_the_next_from_being_accepted(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow()
    for minutes in (20, 10):
        await scheduler.let_be_due(workflow, datetime.now(UTC) - minutes * MINUTE)
        await scheduler.accept_due(workflow)
    assert [run.status for run in await scheduler.runs(workflow)] == ["queued", "queued"]


async def test_of_several_missed_times_the_last_is_run_and_then_the_next_is_due(
    scheduler: Scheduler,
) -> None:
    workflow = await scheduler.workflow()
    next_of_now = await scheduler.due(workflow)
    # The whole of it half an hour back, so that the last time was half an hour ago.
    await scheduler.move(workflow, -3 * HOUR - 30 * MINUTE)
    assert await scheduler.accept_due(workflow)
    [run] = await scheduler.runs(workflow)
    last = next_of_now - HOUR - 30 * MINUTE
    assert run.input == {"scheduled_for": iso(last)}
    assert await scheduler.due(workflow) == last + HOUR


async def test_a_time_that_was_missed_by_more_than_an_hour_is_left_out(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow({"every": {"days": 1}})
    due = await scheduler.due(workflow)
    await scheduler.move(workflow, -DAY - 61 * MINUTE)
    assert await scheduler.accept_due(workflow) is None
    assert await scheduler.runs(workflow) == []
    assert await scheduler.due(workflow) == due - 61 * MINUTE


async def test_a_time_that_was_missed_by_less_than_an_hour_is_run(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow({"every": {"days": 1}})
    await scheduler.move(workflow, -DAY - 59 * MINUTE)
    assert await scheduler.accept_due(workflow)
    assert await scheduler.due(workflow) > datetime.now(UTC) + 22 * HOUR


async def test_its_next_times_are_those_of_its_calendar(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow({"cron": "30 2 29 2 *", "timezone": "Europe/Berlin"})
    row = await scheduler.row(workflow)
    assert row["next_runs"][0] == row["next_run_at"] and len(row["next_runs"]) == 5
    # A cron is due when its row says so, and goes on from now.
    await scheduler.let_be_due(workflow, datetime.now(UTC) - MINUTE)
    assert await scheduler.accept_due(workflow)
    assert (await scheduler.row(workflow))["next_runs"] == row["next_runs"]


async def test_an_edit_of_the_schedule_makes_it_count_from_now(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow()
    await scheduler.move(workflow, -30 * MINUTE)
    before = datetime.now(UTC)
    await scheduler.change(workflow, {"every": {"minutes": 10}})
    assert before + 9 * MINUTE < await scheduler.due(workflow) <= datetime.now(UTC) + 10 * MINUTE


async def test_an_edit_that_leaves_the_schedule_alone_keeps_its_times(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow()
    await scheduler.move(workflow, -30 * MINUTE)
    row = await scheduler.row(workflow)
    await scheduler.change(workflow, input={"a": 1})
    assert await scheduler.row(workflow) == row


async def test_a_period_counts_from_when_the_workflow_becomes_active_again(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow()
    await scheduler.move(workflow, -30 * MINUTE)
    await scheduler.change(workflow, status="paused")
    before = datetime.now(UTC).replace(microsecond=0)
    await scheduler.change(workflow)
    assert await scheduler.due(workflow) >= before + HOUR


async def test_a_frequency_goes_on_as_before_when_the_workflow_becomes_active_again(
    scheduler: Scheduler,
) -> None:
    workflow = await scheduler.workflow(DAILY)
    await scheduler.move(workflow, timedelta(hours=-5))
    due = await scheduler.due(workflow)
    await scheduler.change(workflow, DAILY, status="paused")
    await scheduler.change(workflow, DAILY)
    assert await scheduler.due(workflow) == due


async def test_a_workflow_that_is_paused_when_it_is_due_has_no_run_then_or_later(
    scheduler: Scheduler,
) -> None:
    workflow = await scheduler.workflow()
    await scheduler.move(workflow, -HOUR)
    due = await scheduler.due(workflow)
    await scheduler.change(workflow, status="paused")
    assert await scheduler.accept_due(workflow, due) is None
    await scheduler.change(workflow)
    assert await scheduler.accept_due(workflow, due) is None
    assert await scheduler.runs(workflow) == []


async def test_a_workflow_that_gets_another_trigger_or_is_deleted_is_due_no_more(
    scheduler: Scheduler,
) -> None:
    changed, deleted = await scheduler.workflow(), await scheduler.workflow()
    await scheduler.change(changed, None)
    await scheduler.delete(deleted)
    for workflow in (changed, deleted):
        row = await scheduler.row(workflow)
        assert row["ended"] and row["next_run_at"] is None and row["next_runs"] == []


async def test_a_workflow_that_gets_its_schedule_back_begins_anew(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow(DAILY)
    await scheduler.move(workflow, timedelta(hours=-5))
    await scheduler.change(workflow, None)
    await scheduler.change(workflow, DAILY)
    row = await scheduler.row(workflow)
    assert not row["ended"] and row["next_run_at"] > datetime.now(UTC) + 23 * HOUR


async def test_a_draft_has_no_times(scheduler: Scheduler) -> None:
    workflow = await scheduler.workflow(HOURLY, status="draft")
    assert await scheduler.rows("select 1 from automation_schedules where automation_id = %s", workflow) == []
