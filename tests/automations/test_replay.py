"""Histories of every shape, committed: code that would decide otherwise fails here, without a server.

A history that is missing from `tests/histories` is recorded by the live tests below. To change one on
purpose, delete its file. From the first release on that is for a change behind `workflow.patched` only: what
is under way in the field replays like the old one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from temporalio import activity
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import ExecuteActivityInput, Replayer
from temporalio.workflow import NondeterminismError

from database import Database
from models.credits import credits
from models.credits.credits import Booking
from models.runs import resumption
from models.runs.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from temporal.client import TASK_QUEUE
from temporal.sandbox import workflow_runner
from temporal.starts import delivery_workflow_id, job_workflow_id, monitor_workflow_id
from tests.automations.engine import (
    Endpoint,
    NewAccount,
    NewTarget,
    accept,
    ended,
    events_of,
    run_workflow,
    transform,
    until,
    waiting,
    webhook,
    working,
)
from tests.automations.faults import Do, Lost, with_faults
from tests.deliveries.receivers import Hooks
from tests.jobs.jobs import Jobber
from tests.monitors.watching import Watcher, addresses
from workflows.credits import TopUp
from workflows.deliveries import DeliveryBatch
from workflows.jobs import BulkJob
from workflows.maintenance import Maintenance
from workflows.messages import LOOK_UP_ROWS, PURGE_LOOKUPS, WATCH_CHUNK, ChunkResult, MonitorChunkResult
from workflows.monitors import MonitorRun, ScheduledMonitor
from workflows.runs import AutomationRun
from workflows.schedules import ScheduledTrigger

HISTORIES = Path(__file__).parents[1] / "histories"

LOST = "a-run-whose-activities-are-lost"
WAIT = {"id": "wait", "type": "delay", "config": {"seconds": 2.5}}
APPROVAL = {"id": "approval", "type": "wait", "config": {"timeout": 3600}}
RUNS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "a-run": lambda url: [webhook(url), transform("end", "call.status")],
    "a-run-that-waits": lambda url: [WAIT, webhook(url)],
    "a-run-that-is-approved": lambda url: [APPROVAL, transform("end", "approval.body")],
    "a-run-of-parallel-steps": lambda url: [
        webhook(f"{url}/first", "first"),
        webhook(f"{url}/refused", "second") | {"needs": []},
        transform("end", "[first.status, second.status]", needs=["first", "second"]),
    ],
    LOST: lambda url: [webhook(url), WAIT, webhook(url, "after")],
}
"""The steps of each, one of which calls this."""
LOST_DELIVERIES = "deliveries-whose-activities-are-lost"
DELIVERIES: dict[str, list[int]] = {
    "deliveries-that-are-done": [200],
    "deliveries-that-wait": [500, 200],
    LOST_DELIVERIES: [500, 200],
}
"""What the receiver answers to each attempt at a delivery."""
MONITOR_RUNS = {
    "a-monitor-run-at-its-pace": 1001,
    "a-monitor-run-that-waits": 1,
    "a-monitor-run-whose-chunk-is-lost": 1,
}
"""How many targets each has."""
OLD = {"a-monitor-run", "a-monitor-run-whose-activities-are-lost"}
"""What earlier releases have begun."""
JOBS = {"a-bulk-job": 1001, "a-bulk-job-that-waits": 1, "a-bulk-job-whose-activities-are-lost": 1}
"""How many rows each has."""
OTHERS: dict[str, tuple[Any, ...]] = {
    "maintenance": ("Maintenance", PURGE_LOOKUPS),
    "a-top-up": ("TopUp", f"topup/{uuid4()}/1"),
    "a-monitor-that-is-due": ("ScheduledMonitor", uuid4(), datetime.now(UTC)),
    "a-workflow-that-is-due": ("ScheduledTrigger", uuid4(), datetime.now(UTC)),
}


async def lose_at_first(_: ExecuteActivityInput, do: Do) -> Any:
    if activity.info().attempt == 1:
        raise Lost
    return await do()


async def wait_at_first(given: ExecuteActivityInput, do: Do) -> Any:
    name, run_id = given.fn.__name__, activity.info().workflow_run_id
    if name not in (LOOK_UP_ROWS, WATCH_CHUNK) or run_id in _WAITED:
        return await do()
    _WAITED.add(run_id)
    return ChunkResult(seconds=0.5) if name == LOOK_UP_ROWS else MonitorChunkResult({"greynoise": 0.5})


_WAITED = set[str | None]()


async def lose_each_kind_once(_: ExecuteActivityInput, do: Do) -> Any:
    """A local activity is lost with its workflow's task: each is the first attempt again."""
    kind = (activity.info().workflow_run_id, activity.info().activity_type)
    if kind not in _LOST:
        _LOST.add(kind)
        raise Lost
    return await do()


_LOST = set[tuple[str | None, str]]()


def replayer() -> Replayer:
    return Replayer(
        workflows=[
            AutomationRun,
            BulkJob,
            DeliveryBatch,
            Maintenance,
            MonitorRun,
            ScheduledMonitor,
            ScheduledTrigger,
            TopUp,
        ],
        workflow_runner=workflow_runner(),
        data_converter=pydantic_data_converter,
    )


@pytest.mark.parametrize("path", sorted(HISTORIES.glob("*.json")), ids=lambda path: path.stem)
async def test_a_committed_history_replays(path: Path) -> None:
    history = WorkflowHistory.from_json(path.stem, path.read_text())
    await replayer().replay_workflow(history)


@pytest.mark.parametrize("is_long", [True, False])
async def test_a_run_whose_history_is_long_goes_on_in_a_new_one(is_long: bool) -> None:
    """As the server suggests: here in the first task of a history that is short."""
    history = json.loads((HISTORIES / "a-run.json").read_text())
    started, task, *_ = [one for one in history["events"] if one["eventType"].endswith("_STARTED")]
    task["workflowTaskStartedEventAttributes"]["suggestContinueAsNew"] = is_long
    given = started["workflowExecutionStartedEventAttributes"]
    continued = {
        "newExecutionRunId": str(uuid4()),
        "workflowTaskCompletedEventId": "5",
        **{name: given[name] for name in ("workflowType", "taskQueue", "input")},
    }
    history["events"][6:] = [
        {
            "eventId": "7",
            "eventTime": task["eventTime"],
            "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW",
            "workflowExecutionContinuedAsNewEventAttributes": continued,
        }
    ]
    replay = replayer().replay_workflow(WorkflowHistory.from_json("a-run", history))
    if is_long:
        await replay
    else:
        with pytest.raises(NondeterminismError):
            await replay


def test_every_shape_has_a_committed_history() -> None:
    shapes = {*RUNS, *DELIVERIES, *MONITOR_RUNS, *JOBS, *OTHERS, *OLD}
    assert {path.stem for path in HISTORIES.glob("*.json")} == shapes


@pytest.fixture
async def unsealed(open_settings: Settings) -> Client:
    """Its histories can be read, as the committed ones can."""
    address = str(open_settings.temporal_address)
    return await Client.connect(address, data_converter=pydantic_data_converter)


async def replayed(handle: WorkflowHandle[Any, Any], name: str) -> None:
    """Replay what has ended, and keep it if there is none of its shape."""
    await handle.result()
    history = await handle.fetch_history()
    await replayer().replay_workflow(history)
    path = HISTORIES / f"{name}.json"
    if not path.exists():
        # Where the code stood on a machine decides nothing.
        path.write_text(re.sub(r'("stackTrace": )"(?:[^"\\]|\\.)*"', r'\1""', history.to_json()) + "\n")


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
async def test_a_history_of_a_run_made_now_replays(
    name: str,
    open_settings: Settings,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
    unsealed: Client,
) -> None:
    refused = {"path": "/refused"}

    def answer(request: dict[str, Any]) -> web.Response:
        return web.json_response({}, status=503 if request["path"] == refused.pop("path", None) else 200)

    receiver.answer = answer
    target = await new_target(RUNS[name](receiver.url), execution="workflow")
    client = with_faults(unsealed, lose_each_kind_once) if name == LOST else unsealed
    async with working(open_settings, client, database, keyring) as notifier:
        [run_id] = await accept(database, target)
        notifier.notify(QUEUED_CHANNEL)
        handle = await run_workflow(client, run_id)
        if name == "a-run-that-is-approved":
            await waiting(database, target.account_id, run_id)
            await until(lambda: events_of(handle, "timer_started"))
            async with database.connection() as connection:
                await resumption.resume(connection, run_id, "approval", "yes")
            notifier.notify(QUEUED_CHANNEL)
        view = await ended(database, notifier, target.account_id, run_id)
        assert view.status == "completed"
        await replayed(handle, name)


@pytest.mark.long
@pytest.mark.parametrize("name", DELIVERIES)
async def test_a_history_of_deliveries_made_now_replays(
    name: str,
    open_settings: Settings,
    database: Database,
    keyring: Keyring,
    new_account: NewAccount,
    receiver: Endpoint,
    unsealed: Client,
) -> None:
    answers = iter(DELIVERIES[name])
    receiver.answer = lambda _: web.Response(status=next(answers))
    hooks = Hooks(database, keyring, await new_account())
    await hooks.endpoint(f"{receiver.url}/held")
    await hooks.emit()
    settings = open_settings.model_copy(update={"webhook_schedule": (2.5,)})
    client = with_faults(unsealed, lose_at_first) if name == LOST_DELIVERIES else unsealed
    async with working(settings, client, database, keyring):
        batch_id = await until(lambda: first_batch(database, hooks.account_id))
        receiver.open.set()
        await hooks.settled()
        await replayed(client.get_workflow_handle(delivery_workflow_id(batch_id)), name)


async def first_batch(database: Database, account_id: UUID) -> UUID | None:
    """The batch that has claimed the only delivery of an account."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select batch_id from delivery_work where account_id = %s", (account_id,)
        )
        row = await cursor.fetchone()
    return row["batch_id"] if row else None


@pytest.mark.long
@pytest.mark.parametrize("name", MONITOR_RUNS)
async def test_a_history_of_a_monitor_made_now_replays(
    name: str,
    open_settings: Settings,
    database: Database,
    keyring: Keyring,
    new_account: NewAccount,
    unsealed: Client,
) -> None:
    watcher = Watcher(database, await new_account())
    async with database.connection() as connection:
        await credits.grant(connection, Booking(watcher.account_id, 2000, f"test/{uuid4()}", "test"))
    monitor_id = await watcher.monitor(addresses(MONITOR_RUNS[name]))
    run_id = await watcher.start(monitor_id)
    faults = {"waits": wait_at_first, "lost": lose_at_first}
    around = next((fault for word, fault in faults.items() if word in name), None)
    client = unsealed if around is None else with_faults(unsealed, around)
    async with working(open_settings, client, database, keyring):
        await watcher.ended(monitor_id, run_id)
        await replayed(client.get_workflow_handle(monitor_workflow_id(run_id)), name)


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
async def test_a_history_of_a_bulk_job_made_now_replays(
    name: str,
    open_settings: Settings,
    database: Database,
    keyring: Keyring,
    new_account: NewAccount,
    unsealed: Client,
) -> None:
    jobber = Jobber(database, await new_account())
    job_id = await jobber.accept(addresses(JOBS[name]))
    faults = {"waits": wait_at_first, "lost": lose_at_first}
    around = next((fault for word, fault in faults.items() if word in name), None)
    client = unsealed if around is None else with_faults(unsealed, around)
    async with working(open_settings, client, database, keyring):
        await jobber.ended(job_id)
        await replayed(client.get_workflow_handle(job_workflow_id(job_id)), name)


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
async def test_a_history_of_another_workflow_made_now_replays(
    name: str, open_settings: Settings, database: Database, keyring: Keyring, unsealed: Client
) -> None:
    kind, *arguments = OTHERS[name]
    async with working(open_settings, unsealed, database, keyring):
        handle = await unsealed.start_workflow(
            kind, args=arguments, id=f"{name}/{uuid4()}", task_queue=TASK_QUEUE
        )
        await replayed(handle, name)
