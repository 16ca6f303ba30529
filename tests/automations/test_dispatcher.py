"""What becomes of claims whose process has died; the other points are in test_dispatch_points."""

from uuid import UUID

import pytest
from aiohttp import web
from temporalio.client import Client, WorkflowExecutionStatus

from activities import executor
from database import Database
from temporal.starts import workflow_id
from tests.automations.claims import (
    batch_of,
    claimed,
    found_unseen,
    make_silent,
    record,
    record_of,
    starter,
)
from tests.automations.engine import Endpoint, NewTarget, Work, accept, ended, requested, until, webhook

ANSWERED = {"status": 200, "headers": {}, "body": None}


async def test_a_claim_that_was_never_started_is_started_under_its_own_id(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    batch_id = (await claimed(database)).lease.batch_id
    await make_silent(database, batch_id)
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and len(receiver.requests) == 1
    assert await batch_of(database, run_id) == batch_id


async def test_the_runs_of_a_terminated_batch_get_a_new_batch_and_keep_their_finished_steps(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    steps = [
        webhook(f"{receiver.url}/1", "one"),
        webhook(f"{receiver.url}/2", "two", body="{{ one.status }}"),
    ]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    lease = (await claimed(database)).lease
    await starter(client, database).begin(await found_unseen(database, lease.batch_id))
    async with database.connection() as connection:
        assert await record(connection, lease, record_of(run_id, "one", output=ANSWERED)) == {run_id}
    await client.get_workflow_handle(workflow_id(lease.batch_id)).terminate()
    await make_silent(database, lease.batch_id)
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    assert [(request["path"], request["body"]) for request in receiver.requests] == [("/2", "200")]
    assert await batch_of(database, run_id) != lease.batch_id


async def test_a_batch_that_goes_on_is_left_alone(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    batch_id = (await claimed(database)).lease.batch_id
    dispatcher = starter(client, database)
    for _ in range(2):
        await dispatcher.begin(await found_unseen(database, batch_id))
    handle = client.get_workflow_handle(workflow_id(batch_id))
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    assert await batch_of(database, run_id) == batch_id
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"


async def is_started(database: Database, batch_id: UUID) -> bool:
    async with database.connection() as connection:
        cursor = await connection.execute("select started_at from batches where id = %s", (batch_id,))
        row = await cursor.fetchone()
    return row is not None and row["started_at"] is not None


async def test_a_batch_whose_executor_lives_is_not_given_back_when_its_workflow_is_terminated(
    at_work: Work,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "BEAT_SECONDS", 0.2)

    async def hold(_: web.Request) -> web.Response:
        await receiver.open.wait()
        return web.json_response({})

    receiver.handler = hold
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify("runs_queued")
        await requested(receiver, 1)
        batch_id = await batch_of(database, run_id)
        # The call is made beside the start.
        await until(lambda: is_started(database, batch_id))
        await client.get_workflow_handle(workflow_id(batch_id)).terminate()
        dispatcher = starter(client, database)
        # Found just before a beat comes.
        batch = await found_unseen(database, batch_id)
        async with database.connection() as connection:
            await connection.execute("update batches set beat_at = now() where id = %s", (batch_id,))
        await dispatcher.begin(batch)
        receiver.open.set()
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert await batch_of(database, run_id) == batch_id and len(receiver.requests) == 1
