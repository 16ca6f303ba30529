"""What people read of a run's workflow, and what a stranger's start may leave behind there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import PauseActivityRequest
from temporalio.client import Client, WorkflowExecutionStatus

from database import Database
from execution import workflow_watch
from models.runs import carriers, own_runs
from notifications import Notifier
from services.carriers import describe_run
from temporal.client import TASK_QUEUE
from temporal.starts import run_workflow_id
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    cancel,
    ended,
    requested,
    transform,
    until,
    waiting,
    webhook,
)
from tests.automations.own_runs import Handle, approval, begun, delay, timers
from workflows.messages import LOOK

pytestmark = pytest.mark.usefixtures("quick_watch")


async def details_of(handle: Handle) -> str:
    """Return what Temporal's pages show as current details."""
    metadata: Any = await handle.query("__temporal_workflow_metadata")
    return metadata.current_details


async def test_the_details_of_a_run_that_has_ended_say_that_nothing_goes_on(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url), transform("end", "'done'")])
    run_id, handle = await begun(notifier, client, database, target)
    await ended(database, notifier, target.account_id, run_id)
    assert await handle.result() == "completed"
    assert await details_of(handle) == "- call: completed\n- end: completed"


async def test_a_wait_that_was_looked_at_is_still_told(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget
) -> None:
    """As after a reset, and of a wait that was given to a workflow."""
    target = await new_target([transform("begin", "1"), approval()])
    run_id, handle = await begun(notifier, client, database, target)
    await waiting(database, target.account_id, run_id)
    await until(lambda: timers(handle))
    await handle.signal(LOOK)

    async def looked() -> list[str] | None:
        told = await timers(handle)
        return told if len(told) > 1 else None

    for told in await until(looked):
        assert told.startswith("approval: until 20")
    assert (await handle.query("progress")).startswith("- begin: completed\n- approval: until 20")
    await cancel(database, notifier, target.account_id, run_id)


async def test_of_a_closed_workflow_no_calls_and_no_progress_are_described(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """They are of the moment when it was closed, and would contradict the run."""
    target = await new_target([webhook(f"{receiver.url}/held"), transform("end", "1")])
    run_id, handle = await begun(notifier, client, database, target)
    at_work = await described_with_a_call(client, receiver, run_id)
    assert ([one.activity for one in at_work["activities"]], at_work["progress"]) == (
        ["call: webhook"],
        ["call: webhook: running"],
    )
    await handle.terminate()
    told = await describe_run(client, run_id)
    assert told is not None
    assert (told["workflow_status"], told["activities"], told["progress"]) == ("terminated", [], [])
    await cancel(database, notifier, target.account_id, run_id)


async def test_a_call_that_was_paused_in_temporal_is_described_as_paused(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Nothing else tells why a run stays `running`."""
    target = await new_target([webhook(f"{receiver.url}/held"), transform("end", "1")])
    run_id, handle = await begun(notifier, client, database, target)
    [call] = (await described_with_a_call(client, receiver, run_id))["activities"]
    assert not call.paused
    execution = WorkflowExecution(workflow_id=handle.id)
    await client.workflow_service.pause_activity(
        PauseActivityRequest(namespace=client.namespace, execution=execution, id=call.activity)
    )

    async def is_paused() -> bool:
        told = await describe_run(client, run_id)
        return told is not None and [one.paused for one in told["activities"]] == [True]

    assert await until(is_paused)
    await cancel(database, notifier, target.account_id, run_id)


async def test_the_page_of_a_workflow_is_described_where_temporals_pages_are_known(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget
) -> None:
    target = await new_target([approval()])
    run_id, _ = await begun(notifier, client, database, target)
    with_page = await describe_run(client, run_id, "https://pages.example")
    without = await describe_run(client, run_id)
    assert with_page and with_page["workflow_url"] == (
        f"https://pages.example/namespaces/default/workflows/run%2F{run_id}"
    )
    assert without and without["workflow_url"] is None
    await cancel(database, notifier, target.account_id, run_id)


async def test_every_wait_of_a_run_is_a_timer_of_its_carrier(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """A delay, an approval, and the pause of one item of two before its next attempt."""
    receiver.answer = lambda request: web.Response(status=200 if request["path"] == "/ok" else 503)
    each = webhook("{{ item }}", "each") | {"for_each": "trigger.urls"}
    each["retry"] = {"max_attempts": 2, "initial_seconds": 60}
    steps = [
        delay(1800) | {"needs": []},
        approval(900) | {"needs": []},
        each | {"needs": []},
    ]
    target = await new_target(steps)
    urls = [f"{receiver.url}/ok", f"{receiver.url}/fails"]
    run_id, _ = await begun(notifier, client, database, target, {"urls": urls})

    async def look() -> list[str] | None:
        async with database.connection() as connection:
            view = await carriers.get(connection, target.account_id, run_id)
        told = [timer.step for timer in view.timers]
        assert [timer.until for timer in view.timers] == sorted(timer.until for timer in view.timers)
        return told if len(told) == 3 else None

    assert await until(look) == ["each[1]", "approval", "wait"]
    await cancel(database, notifier, target.account_id, run_id)


async def described_with_a_call(client: Client, receiver: Endpoint, run_id: UUID) -> dict[str, Any]:
    """Wait until the endpoint has the call of a run, and the description shows it."""
    await requested(receiver, 1)

    async def look() -> dict[str, Any] | None:
        told = await describe_run(client, run_id)
        return told if told and told["activities"] and told["progress"] else None

    return await until(look)


@pytest.mark.parametrize("claim", ["none", "x" * 500_000])
async def test_a_start_that_cannot_be_read_fails(stranger: Client, notifier: Notifier, claim: str) -> None:
    """It would be tried again for ever, with a line in the log each time."""
    run_id = uuid4()
    handle = await stranger.start_workflow(
        "AutomationRun",
        {"run_id": str(run_id), "claim_id": claim},
        id=run_workflow_id(run_id),
        task_queue=TASK_QUEUE,
    )
    await is_over(handle, WorkflowExecutionStatus.FAILED)


async def is_over(handle: Handle, status: WorkflowExecutionStatus) -> None:
    async def over() -> bool:
        return (await handle.describe()).status is status

    await until(over)


@pytest.mark.parametrize("queue", [TASK_QUEUE, "elsewhere"])
async def test_a_foreign_workflow_under_a_runs_id_does_not_hold_it_up(
    notifier: Notifier,
    client: Client,
    stranger: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    queue: str,
) -> None:
    """Somebody ends the run's workflow and starts one of a type that nobody knows."""
    monkeypatch.setattr(workflow_watch, "_UNKNOWN", timedelta(seconds=1))
    target = await new_target([webhook(f"{receiver.url}/held"), transform("end", "'done'")])
    run_id, handle = await begun(notifier, client, database, target)
    await requested(receiver, 1)
    await stranger.get_workflow_handle(handle.id).terminate()
    foreign = await stranger.start_workflow("Nonsense", id=handle.id, task_queue=queue)
    receiver.open.set()
    try:
        # Nothing takes it up there, so it goes by a shift.
        view = await ended(database, notifier, target.account_id, run_id, 45)
        assert view.status == "completed"
    finally:
        await foreign.terminate()


@pytest.mark.parametrize("queue", [TASK_QUEUE, "elsewhere"])
async def test_a_foreign_workflow_is_ended_where_a_run_must_have_one_of_its_own(
    notifier: Notifier,
    client: Client,
    stranger: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    queue: str,
) -> None:
    monkeypatch.setattr(own_runs, "UNTAKEN_SECONDS", 1)
    nap = {"id": "nap", "type": "delay", "config": {"seconds": 3}}
    target = await new_target([nap, webhook(receiver.url)], execution="workflow")
    run_id, handle = await begun(notifier, client, database, target)
    await until(lambda: timers(handle))
    await stranger.get_workflow_handle(handle.id).terminate()
    foreign = await stranger.start_workflow("Nonsense", id=handle.id, task_queue=queue)
    view = await ended(database, notifier, target.account_id, run_id, 45)
    assert view.status == "completed"
    theirs = stranger.get_workflow_handle(foreign.id, run_id=foreign.result_run_id)
    await is_over(theirs, WorkflowExecutionStatus.TERMINATED)
