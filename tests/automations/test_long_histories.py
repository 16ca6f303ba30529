"""Batches whose history grows long, or whose tasks keep failing."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp import web
from temporalio.client import Client
from temporalio.service import RPCError

from database import Database, Notifier
from models import batches, runs
from sealing import Keyring
from settings import Settings
from temporal.client import connect
from tests.automations.engine import Endpoint, NewTarget, accept, ended, transform, webhook, working
from tests.automations.test_dispatcher import batch_of, make_stale


@pytest.fixture(scope="module")
async def impatient_client(impatient: Settings, keyring: Keyring) -> Client:
    return await connect(impatient, keyring)


@pytest.fixture(scope="module")
async def impatient_worker(
    impatient: Settings, impatient_client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[Notifier]:
    async with working(impatient, impatient_client, database, keyring) as notifier:
        yield notifier


async def continued(client: Client, database: Database, run_id: Any) -> bool:
    """Whether the batch of a run went on with a new history."""
    handle = client.get_workflow_handle(f"automation/{await batch_of(database, run_id)}")
    await handle.result()
    history = await handle.fetch_history()
    return bool(history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id)


async def test_a_batch_with_a_long_history_goes_on_with_a_new_one(
    impatient_client: Client,
    impatient_worker: Notifier,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    def answer(request: dict[str, Any]) -> web.Response:
        call_id = request["headers"]["webhook-id"]
        tries = sum(one["headers"]["webhook-id"] == call_id for one in receiver.requests)
        return web.json_response(int(request["body"]), status=503 if tries == 1 else 200)

    receiver.answer = answer
    steps = [
        {**webhook(receiver.url, "each", body="{{ item }}"), "for_each": "trigger", "max_concurrency": 4},
        {"id": "wait", "type": "delay", "config": {"seconds": 0.2}},
        webhook(receiver.url, "last", body="99"),
        transform("sum", "[sum(each[].body), last.body]"),
    ]
    target = await new_target(steps)
    run_ids = [(await accept(database, target, 1, list(range(n))))[0] for n in (30, 20)]
    views = await asyncio.gather(
        *(ended(database, impatient_worker, target.account_id, run_id) for run_id in run_ids)
    )
    assert [view.output for view in views] == [[435, 99], [190, 99]]
    assert [view.steps[0].attempts for view in views] == [2, 2]
    # Every first attempt fails, so each was called twice: none was lost, and none repeated beyond that.
    calls = Counter(request["headers"]["webhook-id"] for request in receiver.requests)
    assert len(calls) == 52 and set(calls.values()) == {2}
    assert await continued(impatient_client, database, run_ids[0])


async def test_a_run_in_its_second_history_can_be_cancelled(
    impatient_client: Client,
    impatient_worker: Notifier,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    steps = [
        {**webhook(receiver.url, "each"), "for_each": "trigger", "max_concurrency": 1},
        webhook(f"{receiver.url}/held", "held"),
    ]
    target = await new_target(steps)
    [run_id] = await accept(database, target, 1, list(range(20)))
    impatient_worker.notify(runs.QUEUED_CHANNEL)
    async with asyncio.timeout(30):
        while not any(request["path"] == "/held" for request in receiver.requests):
            await asyncio.sleep(0.02)
    async with database.transaction() as connection:
        batch_id = await runs.cancel(connection, target.account_id, run_id)
    handle = impatient_client.get_workflow_handle(f"automation/{batch_id}")
    await handle.signal("cancel_runs", [run_id])
    view = await ended(database, impatient_worker, target.account_id, run_id)
    assert view.status == "cancelled" and [step.status for step in view.steps] == ["completed", "cancelled"]
    receiver.open.set()
    assert await continued(impatient_client, database, run_id)


async def test_a_batch_whose_tasks_keep_failing_is_taken_apart_and_ends(
    database: Database, impatient_worker: Notifier, new_target: NewTarget
) -> None:
    target = await new_target()
    async with database.transaction() as connection:
        await connection.execute(
            "update automation_versions set definition = '{\"steps\": 1}' where automation_id = %s",
            (target.automation_id,),
        )
    run_ids = await accept(database, target, 2)
    impatient_worker.notify(runs.QUEUED_CHANNEL)
    async with asyncio.timeout(120):
        while True:
            async with database.connection() as connection:
                ends = [await runs.has_ended(connection, run_id) for run_id in run_ids]
            if all(ends):
                break
            await make_stale(database)
            await asyncio.sleep(0.2)
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select error->>'code' as code, engine_failures as failures from runs where id = any(%s)",
            (run_ids,),
        )
        found = [(row["code"], row["failures"]) for row in await cursor.fetchall()]
    assert found == [("engine_error", batches.MAX_ENGINE_FAILURES)] * 2


async def test_a_run_that_asks_for_more_at_once_than_a_task_holds_completes(
    database: Database, impatient_worker: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    """The server would terminate a workflow that sent 80 bodies of 60 KB in one task."""
    calls = [webhook(receiver.url, f"s{n}", body="{{ trigger }}") | {"needs": []} for n in range(80)]
    target = await new_target(calls)
    [run_id] = await accept(database, target, 1, "x" * 60_000)
    assert (await ended(database, impatient_worker, target.account_id, run_id)).status == "completed"
    assert len(receiver.requests) == 80


async def test_a_batch_that_is_ended_from_outside_again_and_again_ends(
    impatient_client: Client, impatient_worker: Notifier, database: Database, new_target: NewTarget
) -> None:
    """By the server, where something grew too large, or by somebody on Temporal's pages."""
    target = await new_target([{"id": "wait", "type": "delay", "config": {"seconds": 200}}])
    [run_id] = await accept(database, target)
    impatient_worker.notify(runs.QUEUED_CHANNEL)
    terminated: set[Any] = set()
    async with asyncio.timeout(60):
        while True:
            async with database.connection() as connection:
                if await runs.has_ended(connection, run_id):
                    break
            batch_id = await batch_of(database, run_id)
            if batch_id is not None and batch_id not in terminated:
                with contextlib.suppress(RPCError):  # claimed, and about to start
                    await impatient_client.get_workflow_handle(f"automation/{batch_id}").terminate()
                    terminated.add(batch_id)
            await make_stale(database)
            await asyncio.sleep(0.2)
    assert len(terminated) == batches.MAX_ENGINE_FAILURES
    async with database.connection() as connection:
        view = await runs.get(connection, target.account_id, run_id)
    assert view.error is not None and view.error["code"] == "engine_error"
