"""Workflows that wait for what monitors find: an event starts a run of each, once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from language.definition import Definition
from models.automations import automations
from models.events import event_triggers, events
from models.events.event_data import EventData, Failure, MonitorRunCompleted, MonitorRunFailed
from models.identifiers import new_id
from tests.checked_definitions import checked
from tests.deliveries.receivers import Hooks
from tests.views import get_run

MONITOR, OTHER = new_id(), new_id()
CHANGES = {"changes": [{"target": "example.com", "changes": {"whois.registrar": {"old": "A", "new": "B"}}}]}


def completed(monitor_id: UUID = MONITOR) -> MonitorRunCompleted:
    return MonitorRunCompleted(
        monitor_id=monitor_id, monitor_name="m", run_id=new_id(), total_records=1, changes_detected=1,
        credits_used=1,
    )  # fmt: skip


def failed() -> MonitorRunFailed:
    return MonitorRunFailed(
        monitor_id=MONITOR, monitor_name="m", run_id=new_id(), total_records=1, processed_records=0,
        credits_used=0, error=Failure(code="all_targets_failed", message="None could be looked up."),
    )  # fmt: skip


async def workflow(hooks: Hooks, status: str = "active", **trigger: Any) -> UUID:
    """A workflow with this trigger, in this status from the beginning."""
    definition = Definition.model_validate({"name": "w", "trigger": {"type": "monitor_event", **trigger}})
    async with hooks.database.transaction() as connection:
        created = await automations.create(
            connection, hooks.keyring, hooks.actor, checked(definition, "draft")
        )
        await connection.execute("update automations set status = %s where id = %s", (status, created))
    return created


async def happen(hooks: Hooks, data: EventData, times: int = 1) -> list[UUID]:
    """The event, told so many times; the runs that it started."""
    accepted: list[UUID] = []
    for _ in range(times):
        async with hooks.database.transaction() as connection:
            event_id = await events.emit(connection, hooks.account_id, data)
            if times > 1:
                event_id = data.run_id  # pyright: ignore[reportAttributeAccessIssue]
            started = await event_triggers.start_runs(connection, hooks.account_id, event_id, data, CHANGES)
        accepted += [one.run_id for one in started if not one.repeated]
    return accepted


async def test_a_run_gets_the_data_and_what_changed(hooks: Hooks) -> None:
    workflow_id = await workflow(hooks)
    data = completed()
    [run_id] = await happen(hooks, data)
    async with hooks.database.connection() as connection:
        view = await get_run(connection, hooks.account_id, run_id)
    assert (view.workflow_id, view.trigger) == (workflow_id, "monitor_event")
    assert view.input == data.model_dump(mode="json") | CHANGES


@pytest.mark.parametrize(
    ("trigger", "data", "starts"),
    [
        ({}, completed(), True),
        ({}, failed(), False),
        ({"event": "monitor.run.failed"}, failed(), True),
        ({"event": "monitor.run.failed"}, completed(), False),
        ({"monitor_id": str(MONITOR)}, completed(), True),
        ({"monitor_id": str(OTHER)}, completed(), False),
        ({"status": "paused"}, completed(), False),
        ({"status": "draft"}, completed(), False),
    ],
)
async def test_only_what_a_workflow_waits_for_starts_it(
    hooks: Hooks, trigger: dict[str, Any], data: EventData, starts: bool
) -> None:
    await workflow(hooks, **trigger)
    assert len(await happen(hooks, data)) == int(starts)


async def test_an_event_that_is_told_twice_starts_one_run(hooks: Hooks) -> None:
    await workflow(hooks)
    assert len(await happen(hooks, completed(), times=2)) == 1


async def test_events_of_other_accounts_start_nothing(hooks: Hooks, new_hooks: Any) -> None:
    await workflow(hooks)
    assert await happen(await new_hooks(), completed()) == []


async def test_a_deleted_workflow_is_not_started(hooks: Hooks) -> None:
    workflow_id = await workflow(hooks)
    async with hooks.database.transaction() as connection:
        await automations.delete(connection, hooks.actor, workflow_id)
    assert await happen(hooks, completed()) == []
