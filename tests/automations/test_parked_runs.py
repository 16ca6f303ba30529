"""Runs that wait for days: outside of every batch, until a wake-up of Temporal's own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from database import Database, Notifier
from models import runs
from models.runs import QUEUED_CHANNEL
from models.targets import Target
from tests.automations.engine import Endpoint, NewTarget, accept, ended, statuses, until, webhook
from tests.automations.test_dispatch_points import let_pass
from tests.automations.test_dispatcher import batch_of


def waiting_steps(url: str, **delay: float) -> list[dict[str, Any]]:
    wait = {"id": "wait", "type": "delay", "config": delay}
    return [webhook(f"{url}/before", "before"), wait, webhook(f"{url}/after", "after")]


async def parked(
    client: Client, database: Database, notifier: Notifier, target: Target
) -> tuple[UUID, WorkflowHandle[Any, Any]]:
    """A run that waits, and its wake-up."""
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)

    async def waits() -> bool:
        async with database.connection() as connection:
            return (await runs.get(connection, target.account_id, run_id)).status == "waiting"

    await until(waits)
    return run_id, client.get_workflow_handle(f"automation/{await batch_of(database, run_id)}")


async def cancel(database: Database, target: Target, run_id: UUID) -> None:
    async with database.transaction() as connection:
        assert await runs.cancel(connection, target.account_id, run_id) is None
        view = await runs.get(connection, target.account_id, run_id)
    assert view.status == "cancelled" and view.completed_at
    assert statuses(view) == {"before": "completed", "wait": "cancelled", "after": "skipped"}


@pytest.mark.parametrize("days", [30, 365])
async def test_a_delay_of_days_is_a_start_of_temporals_own_and_can_be_cancelled(
    client: Client,
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
    days: int,
) -> None:
    """Shown are when Temporal is to start it, that nothing else is kept of it, and its end half-way.

    Half of the time is taken off what the database says of the run; Temporal's own wait goes on.
    """
    target = await new_target(waiting_steps(receiver.url, days=days))
    run_id, wake_up = await parked(client, database, notifier, target)
    async with database.connection() as connection:
        view = await runs.get(connection, target.account_id, run_id)
        cursor = await connection.execute(
            "select wake_at - started_at as delay, wake_at from runs where id = %s", (run_id,)
        )
        row = await cursor.fetchone()
    assert row is not None and abs(row["delay"] - timedelta(days=days)) < timedelta(seconds=20)
    assert view.steps[1].status == "waiting"
    assert datetime.fromisoformat(view.steps[1].output["until"]) == row["wake_at"]
    description = await wake_up.describe()
    info = description.raw_description.workflow_execution_info
    assert description.status is WorkflowExecutionStatus.RUNNING and info.history_length == 1
    assert abs(info.execution_time.ToDatetime() - row["wake_at"].replace(tzinfo=None)).total_seconds() < 5
    await let_pass(database, run_id, timedelta(days=days / 2))
    await cancel(database, target, run_id)
    async with database.connection() as connection:
        [before, wait, _] = (await runs.get(connection, target.account_id, run_id)).steps
    assert before.completed_at and wait.started_at
    assert abs(before.completed_at - wait.started_at - timedelta(days=days / 2)) < timedelta(minutes=1)
    assert [request["path"] for request in receiver.requests] == ["/before"]


async def test_a_delay_that_was_cancelled_says_how_long_it_went(
    client: Client, database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    """As every other step does that has come to its end."""
    target = await new_target(waiting_steps(receiver.url, days=30))
    run_id, _ = await parked(client, database, notifier, target)
    await let_pass(database, run_id, timedelta(days=10))
    await cancel(database, target, run_id)
    async with database.connection() as connection:
        [_, wait, _] = (await runs.get(connection, target.account_id, run_id)).steps
    assert wait.completed_at is not None and wait.duration_ms is not None
    assert abs(timedelta(milliseconds=wait.duration_ms) - timedelta(days=10)) < timedelta(minutes=1)


@pytest.fixture
def short_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a batch does not sit out by itself begins at a second here, not at five minutes."""
    monkeypatch.setattr("workflows.interpreter.LONGEST_NAP", timedelta(seconds=1))


async def test_a_parked_run_goes_on_when_its_time_has_come(
    short_naps: None,
    client: Client,
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target(waiting_steps(receiver.url, seconds=8))
    run_id, wake_up = await parked(client, database, notifier, target)
    view = await ended(database, notifier, target.account_id, run_id)
    await wake_up.result()
    assert view.status == "completed" and set(statuses(view).values()) == {"completed"}
    assert (view.steps[1].duration_ms or 0) >= 8000
    assert [request["path"] for request in receiver.requests] == ["/before", "/after"]


async def test_the_wake_up_of_a_cancelled_run_does_nothing(
    short_naps: None,
    client: Client,
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target(waiting_steps(receiver.url, seconds=8))
    run_id, wake_up = await parked(client, database, notifier, target)
    await cancel(database, target, run_id)
    await wake_up.result()
    async with database.connection() as connection:
        assert (await runs.get(connection, target.account_id, run_id)).status == "cancelled"
    assert [request["path"] for request in receiver.requests] == ["/before"]
