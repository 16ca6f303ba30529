"""Runs that wait for days: nobody executes them, and their own workflow has the timer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from database import Database
from language.progress import Progress
from models.automations.run_targets import RunTarget
from models.runs import cancellation
from models.runs.own_runs import WORKFLOW
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    events_of,
    run_workflow,
    statuses,
    until,
    waiting,
    webhook,
)
from tests.views import get_run

pytestmark = pytest.mark.usefixtures("quick_watch")


def waiting_steps(url: str, **delay: float) -> list[dict[str, Any]]:
    wait = {"id": "wait", "type": "delay", "config": delay}
    return [webhook(f"{url}/before", "before"), wait, webhook(f"{url}/after", "after")]


async def parked(
    client: Client, database: Database, notifier: Notifier, target: RunTarget
) -> tuple[UUID, WorkflowHandle[Any, Any]]:
    """A run that waits, and its workflow, once that has its timer."""
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    await waiting(database, target.account_id, run_id)
    workflow = await run_workflow(client, run_id)
    await until(lambda: events_of(workflow, "timer_started"))
    return run_id, workflow


async def let_pass(database: Database, run_id: UUID, time: timedelta) -> None:
    """What the run looks like so much later: all its times are that much longer ago."""
    async with database.connection() as connection:
        cursor = await connection.execute("select progress from run_work where run_id = %s", (run_id,))
        row: Any = await cursor.fetchone()
        progress = Progress.model_validate(row["progress"])
        steps = {
            step_id: step.model_copy(update={"began": step.began - time, "until": step.until - time})
            for step_id, step in progress.steps.items()
            if step.until is not None
        }
        await connection.execute(
            "update run_work set wake_at = wake_at - %s, progress = %s where run_id = %s",
            (time, progress.model_copy(update={"steps": steps}).model_dump_json(), run_id),
        )


async def cancel(database: Database, target: RunTarget, run_id: UUID) -> None:
    async with database.connection() as connection:
        assert await cancellation.cancel(connection, target.account_id, run_id)
        view = await get_run(connection, target.account_id, run_id)
    assert view.status == "cancelled" and view.completed_at
    assert statuses(view) == {"before": "completed", "wait": "cancelled", "after": "skipped"}


@pytest.mark.parametrize("days", [30, 365])
async def test_a_delay_of_days_is_one_timer_of_temporals_and_can_be_cancelled(
    client: Client,
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
    days: int,
) -> None:
    """Shown are that Temporal's timer ends with the wait, that nobody executes the run, and its end half-way.

    Half of the time is taken off what the database says of the run; Temporal's own wait goes on.
    """
    target = await new_target(waiting_steps(receiver.url, days=days))
    run_id, workflow = await parked(client, database, notifier, target)
    async with database.connection() as connection:
        view = await get_run(connection, target.account_id, run_id)
        cursor = await connection.execute(
            "select wake_at - started_at as delay, wake_at, status, carrier from run_work where run_id = %s",
            (run_id,),
        )
        row: Any = await cursor.fetchone()
    assert abs(row["delay"] - timedelta(days=days)) < timedelta(seconds=20)
    assert (row["status"], row["carrier"]) == ("waiting", WORKFLOW)
    assert view.steps[1].status == "waiting"
    assert datetime.fromisoformat(view.steps[1].output["until"]) == row["wake_at"]
    assert (await workflow.describe()).status is WorkflowExecutionStatus.RUNNING
    [timer] = await events_of(workflow, "timer_started")
    length = timer.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
    ends_at = timer.event_time.ToDatetime(row["wake_at"].tzinfo) + length
    assert abs(ends_at - row["wake_at"]) < timedelta(seconds=5)
    await let_pass(database, run_id, timedelta(days=days / 2))
    await cancel(database, target, run_id)
    async with database.connection() as connection:
        [before, wait, _] = (await get_run(connection, target.account_id, run_id)).steps
    assert before.completed_at and wait.started_at
    assert abs(before.completed_at - wait.started_at - timedelta(days=days / 2)) < timedelta(minutes=1)
    assert receiver.paths == ["/before"]


async def test_a_delay_that_was_cancelled_says_how_long_it_went(
    client: Client, database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    """As every other step does that has come to its end."""
    target = await new_target(waiting_steps(receiver.url, days=30))
    run_id, _ = await parked(client, database, notifier, target)
    await let_pass(database, run_id, timedelta(days=10))
    await cancel(database, target, run_id)
    async with database.connection() as connection:
        [_, wait, _] = (await get_run(connection, target.account_id, run_id)).steps
    assert wait.completed_at is not None and wait.duration_ms is not None
    assert abs(timedelta(milliseconds=wait.duration_ms) - timedelta(days=10)) < timedelta(minutes=1)


async def test_a_parked_run_goes_on_when_its_time_has_come(
    client: Client,
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target(waiting_steps(receiver.url, seconds=4))
    run_id, workflow = await parked(client, database, notifier, target)
    view = await ended(database, notifier, target.account_id, run_id)
    await workflow.result()
    assert view.status == "completed" and set(statuses(view).values()) == {"completed"}
    assert (view.steps[1].duration_ms or 0) >= 4000
    assert receiver.paths == ["/before", "/after"]


async def test_the_workflow_of_a_cancelled_run_does_nothing(
    client: Client,
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target(waiting_steps(receiver.url, seconds=4))
    run_id, workflow = await parked(client, database, notifier, target)
    await cancel(database, target, run_id)
    await workflow.result()
    async with database.connection() as connection:
        assert (await get_run(connection, target.account_id, run_id)).status == "cancelled"
    assert receiver.paths == ["/before"]
