"""What an operator finds of a run in Temporal beside its steps: its priority, its account, its failures."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.worker import ExecuteActivityInput

from database import Connection, Database
from models.runs import run_work
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    events_of,
    run_workflow,
    until,
    webhook,
)
from tests.automations.faults import Do, Lost
from tests.automations.own_runs import performers
from workflows.messages import DECIDE_NEXT, PERFORM_STEP, WAKE_RUN

CANARY = "canary@example.com"


async def test_a_run_has_its_priority_and_its_fairness_key(
    at_work: Work, client: Client, database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        await ended(database, notifier, target.account_id, run_id)
    description = await (await run_workflow(client, run_id)).describe()
    priority = description.raw_description.workflow_execution_info.priority
    assert (priority.priority_key, priority.fairness_key) == (2, str(target.account_id))


async def test_runs_are_found_by_their_account(
    at_work: Work, client: Client, database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    run_ids = await accept(database, target, 3)
    async with at_work() as notifier:
        for run_id in run_ids:
            await ended(database, notifier, target.account_id, run_id)
    account = SearchAttributeKey.for_keyword("VedetteAccount")

    async def found() -> bool:
        query = f"{account.name} = '{target.account_id}'"
        ids = {one.id async for one in client.list_workflows(query)}
        return ids == {f"run/{run_id}" for run_id in run_ids}

    await until(found)


@pytest.mark.long
@pytest.mark.parametrize("name", [DECIDE_NEXT, PERFORM_STEP, WAKE_RUN])
async def test_what_an_activity_failed_with_is_told_by_its_type(
    at_work: Work,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """A message may hold what was read: the failure is there, its words are not."""
    failed: list[str | None] = []

    async def queue_none(_: Connection) -> tuple[int, int]:
        return 0, 0

    # A sweep wakes a run a second after it was due, which may be before the retry of its wake-up.
    monkeypatch.setattr(run_work, "wake_due", queue_none)

    async def fail_once(_: ExecuteActivityInput, do: Do) -> Any:
        if activity.info().activity_type == name and not failed:
            failed.append(activity.info().workflow_id)
            raise Lost(f"could not reach {CANARY}")
        return await do()

    wait = {"id": "wait", "type": "delay", "config": {"seconds": 2.5}}
    target = await new_target([webhook(receiver.url), wait])
    [run_id] = await accept(database, target)
    async with at_work(fail_once) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
        assert (view.status, len(receiver.requests), len(failed)) == ("completed", 1, 1)
        handle = await run_workflow(client, run_id)
        assert await handle.result() == "completed"
    assert set((await performers(database, run_id)).values()) == {"activity"}
    text = b"".join(event.SerializeToString() for event in (await handle.fetch_history()).events)
    assert b"canary" not in text and b"Traceback" not in text and b"faults.py" not in text
    if name == PERFORM_STEP:
        started = await events_of(handle, "activity_task_started")
        attempts = [one.activity_task_started_event_attributes for one in started]
        assert [one.last_failure.message for one in attempts if one.HasField("last_failure")] == ["Lost"]
