"""The points at which a process can die between an event and its end, and what covers each.

| Point | Test |
| --- | --- |
| 1 the API, before the commit | `test_an_event_that_was_lost_before_its_commit_…` |
| 2 after it, before the notification | `test_a_run_that_nobody_was_told_of_is_found` |
| 3 claimed, not started | test_dispatcher: `test_a_claim_that_was_never_started_…` |
| 4 started, the reply lost | `test_a_start_that_is_repeated_after_the_end_runs_nothing_again` |
| 5 killed after the claim, or the start | test_killed_workers: `test_a_worker_that_dies_…` |
| 6 killed during calls | test_killed_workers: `test_a_killed_worker_leaves_what_it_has_done` |
| 7 written, the reply lost | test_lost_writes: `test_what_is_committed_is_not_done_again` |
| 8 between a write and a take-over | tests/leases/test_interleavings |
| 9 ended, the reply lost | test_lost_writes: `test_a_run_that_has_ended_stays_as_it_ended` |
| 10 the workflow closed, the run not | test_dispatcher: `test_the_runs_of_a_terminated_batch_…` |
| 11 the store of workflows lost | `test_a_batch_that_the_store_has_lost_…` and the next |
| 12 the database older than the store | `test_an_executor_lets_go_of_runs_that_a_restore_has_taken_from_it` |
| 13 the probe races a slow starter | `test_a_batch_that_two_start_at_once_runs_once` |
| 14 an executor that was overtaken | `test_an_executor_that_lost_a_run_can_write_nothing_of_it` |
| 15 the worker stopped | `test_a_worker_that_is_stopped_loses_and_repeats_nothing` |
| 16 silent, stopped, restarted: processes, Postgres, Temporal | test_crash_points |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from database import Connection, Database
from language.progress import Progress
from models import leases, recovery
from models.identifiers import new_id
from models.leases import Lease
from models.run_writes import Change, End, Wait, record_changes_if_leased
from models.runs import QUEUED_CHANNEL
from settings import Settings
from temporal.starts import workflow_id
from tests.api_server import Api, running
from tests.automations.claims import (
    batch_of,
    claimed,
    found_unseen,
    make_silent,
    record,
    record_of,
    starter,
)
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    requested,
    until,
    webhook,
)
from tests.automations.faults import without_replies
from tests.automations.test_dispatcher import ANSWERED
from tests.automations.workflows import create, post
from tests.views import get_run


@pytest.fixture(scope="module")
async def api(open_settings: Settings) -> AsyncGenerator[Api]:
    async with running(open_settings) as served:
        yield served


# Point 1


async def kill_what_waits_for_a_lock(connection: Connection) -> bool:
    cursor = await connection.execute(
        "select pg_terminate_backend(pid) as killed from pg_stat_activity where application_name ="
        " 'vedette-api' and datname = current_database() and wait_event_type = 'Lock'"
    )
    return bool(await cursor.fetchall())


async def test_an_event_that_was_lost_before_its_commit_is_accepted_when_sent_again(
    api: Api, database: Database
) -> None:
    person = await api.person()
    made = await create(person)

    async def send() -> Any:
        return await post(api, made["webhook_url"], json={}, headers={"Idempotency-Key": "event-1"})

    async with database.transaction() as connection:
        await connection.execute("lock table runs in share mode")
        sending = asyncio.create_task(send())
        await until(lambda: kill_what_waits_for_a_lock(connection))
        assert (await sending).status_code >= 500
    first, second = await send(), await send()
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["run_id"] == second.json()["run_id"]
    listed = (await person.key.get("/api/workflows/runs")).json()
    assert listed["total"] == 1


# Point 2


async def test_a_run_that_nobody_was_told_of_is_found(
    at_work: Work, database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    async with at_work() as notifier:
        notifier.notify = lambda channel, payload="": None
        # The first may be there before the worker begins; by the second it does nothing but wait.
        for _ in range(2):
            [run_id] = await accept(database, target)
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"


# Points 4 and 13


async def run_id_of(client: Client, batch_id: UUID) -> str | None:
    """Temporal's id of the latest time that the batch's workflow was run."""
    return (await client.get_workflow_handle(workflow_id(batch_id)).describe()).run_id


async def test_a_start_that_is_repeated_after_the_end_runs_nothing_again(
    at_work: Work, database: Database, client: Client, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    batch_id = (await claimed(database)).lease.batch_id
    batch = await found_unseen(database, batch_id)
    deaf = starter(without_replies(client), database)
    await deaf.begin(batch)
    started = await run_id_of(client, batch_id)
    async with at_work() as notifier:
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        await client.get_workflow_handle(workflow_id(batch_id)).result()
        await deaf.begin(batch)
        assert await run_id_of(client, batch_id) == started
    assert len(receiver.requests) == 1


async def test_a_batch_that_two_start_at_once_runs_once(
    at_work: Work, database: Database, client: Client, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(f"{receiver.url}/held")])
    [run_id] = await accept(database, target)
    batch_id = (await claimed(database)).lease.batch_id
    batch = await found_unseen(database, batch_id)
    slow, probing = (starter(client, database) for _ in range(2))
    async with at_work() as notifier:
        await asyncio.gather(slow.begin(batch), probing.begin(batch))
        await requested(receiver, 1)
        started = await run_id_of(client, batch_id)
        receiver.open.set()
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        await client.get_workflow_handle(workflow_id(batch_id)).result()
        await slow.begin(batch)
        assert await run_id_of(client, batch_id) == started
    assert len(receiver.requests) == 1 and await batch_of(database, run_id) == batch_id


# Point 11


async def lose(client: Client, batch_id: UUID) -> None:
    """Let Temporal's store lose the workflow of a batch."""
    handle = client.get_workflow_handle(workflow_id(batch_id))
    execution = WorkflowExecution(workflow_id=handle.id)
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
    await client.workflow_service.delete_workflow_execution(request)

    async def gone() -> bool:
        try:
            await handle.describe()
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND
        return False

    await until(gone)


async def test_a_batch_that_the_store_has_lost_goes_on_from_its_finished_steps(
    at_work: Work, database: Database, client: Client, new_target: NewTarget, receiver: Endpoint
) -> None:
    steps = [webhook(f"{receiver.url}/{n}", n, body="{{ one.status }}") for n in ("one", "two")]
    steps[0]["config"].pop("body")
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    lease = (await claimed(database)).lease
    await starter(client, database).begin(await found_unseen(database, lease.batch_id))
    async with database.connection() as connection:
        await record(connection, lease, record_of(run_id, "one", output=ANSWERED))
    await lose(client, lease.batch_id)
    await make_silent(database, lease.batch_id)
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and await batch_of(database, run_id) == lease.batch_id
    assert [(request["path"], request["body"]) for request in receiver.requests] == [("/two", "200")]


async def test_runs_that_wait_for_long_go_on_although_the_store_has_lost_their_timer(
    at_work: Work, database: Database, client: Client, new_target: NewTarget, receiver: Endpoint
) -> None:
    wait = {"id": "wait", "type": "delay", "config": {"days": 30}}
    target = await new_target([webhook(f"{receiver.url}/before", "before"), wait, webhook(receiver.url)])
    [run_id] = await accept(database, target)

    async def waits() -> bool:
        async with database.connection() as connection:
            return (await get_run(connection, target.account_id, run_id)).status == "waiting"

    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await until(waits)
        await lose(client, await batch_of(database, run_id))
        await let_pass(database, run_id, timedelta(days=31))
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and {step.status for step in view.steps} == {"completed"}
    assert receiver.paths == ["/before", "/"]


async def let_pass(database: Database, run_id: UUID, time: timedelta) -> None:
    """What a waiting run looks like so much later, all its times being that much longer ago."""

    def earlier(moment: datetime | None) -> datetime | None:
        return moment and moment - time

    async with database.connection() as connection:
        cursor = await connection.execute("select progress from run_work where run_id = %s", (run_id,))
        row = await cursor.fetchone()
        assert row is not None
        now = Progress.model_validate(row["progress"])
        steps = {
            name: step.model_copy(update={"began": earlier(step.began), "until": earlier(step.until)})
            for name, step in now.steps.items()
        }
        later = now.model_copy(update={"steps": steps})
        await connection.execute(
            "update run_work set wake_at = wake_at - %s, progress = %s where run_id = %s",
            (time, later.model_dump_json(), run_id),
        )


# Points 12 and 14

FORGET = (
    "with gone as (delete from run_work where run_id = %s returning run_id)"
    " delete from runs r using gone where r.id = gone.run_id"
)
REQUEUE = (
    "update run_work set status = 'queued', batch_id = null, begun = false, started_at = null"
    " where run_id = %s"
)


@pytest.mark.parametrize("restore", [FORGET, REQUEUE], ids=["as if never accepted", "as if just accepted"])
async def test_an_executor_lets_go_of_runs_that_a_restore_has_taken_from_it(
    at_work: Work,
    database: Database,
    client: Client,
    new_target: NewTarget,
    receiver: Endpoint,
    restore: Any,
) -> None:
    target = await new_target(
        [webhook(f"{receiver.url}/held", "first"), webhook(f"{receiver.url}/next", "next")]
    )
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        old = await batch_of(database, run_id)
        async with database.transaction() as connection:
            await connection.execute(restore, (run_id,))
            await connection.execute("delete from batches where id = %s", (old,))
        notifier.notify(QUEUED_CHANNEL)
        if restore == REQUEUE:
            await requested(receiver, 2)
        receiver.open.set()
        await client.get_workflow_handle(workflow_id(old)).result()
        if restore == REQUEUE:
            view = await ended(database, notifier, target.account_id, run_id)
            assert view.status == "completed" and await batch_of(database, run_id) != old
    expected = {"/held": 2, "/next": 1} if restore == REQUEUE else {"/held": 1}
    assert Counter(receiver.paths) == expected
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == len(expected)


def written(then: Wait | End) -> Callable[[Connection, Lease, UUID], Awaitable[Any]]:
    return lambda c, lease, run_id: record_changes_if_leased(c, [Change(lease, run_id, then=then)])


WRITES: dict[str, Callable[[Connection, Lease, UUID], Awaitable[Any]]] = {
    "a step": lambda c, lease, run_id: record(c, lease, record_of(run_id)),
    "an item": lambda c, lease, run_id: record(c, lease, record_of(run_id, item=0)),
    "an end": written(End("failed")),
    "a wait": written(Wait(None, "{}", leaves=True)),
    "what is under way": written(Wait(None, "{}")),
    "a beat": lambda c, lease, run_id: leases.renew(c, [lease]),
    "its return to the lane": lambda c, lease, run_id: leases.leave(c, lease),
    "a setback": lambda c, lease, run_id: recovery.set_aside(c, lease, run_id, "build"),
    "a loss": lambda c, lease, run_id: recovery.count_lost(c, lease),
}


@pytest.mark.parametrize("what", WRITES)
async def test_an_executor_that_lost_a_run_can_write_nothing_of_it(
    database: Database, new_target: NewTarget, nothing_waits: None, what: str
) -> None:
    [run_id] = await accept(database, await new_target())
    old = (await claimed(database)).lease
    await make_silent(database, old.batch_id)
    async with database.connection() as connection:
        taken = await leases.take_over(connection, old.batch_id, new_id())
        assert taken is not None
        before = await rows_of(connection, run_id)
        await WRITES[what](connection, old, run_id)
        assert await rows_of(connection, run_id) == before
        # The same by the executor that holds it does change something.
        await WRITES[what](connection, taken.lease, run_id)
        assert await rows_of(connection, run_id) != before


async def rows_of(connection: Connection, run_id: UUID) -> list[dict[str, Any]]:
    """All that is stored of a run."""
    rows: list[dict[str, Any]] = []
    for query in (
        "select * from runs where id = %s",
        "select * from run_work where run_id = %s",
        "select * from run_steps where run_id = %s",
        "select * from run_step_items where run_id = %s",
        "select b.* from batches b join run_work w on w.batch_id = b.id where w.run_id = %s",
    ):
        cursor = await connection.execute(query, (run_id,))
        rows += await cursor.fetchall()
    return rows


# Point 15


@pytest.mark.usefixtures("short_periods")
async def test_a_worker_that_is_stopped_loses_and_repeats_nothing(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(0.4)
        return web.json_response({})

    receiver.handler = slow
    account_id = (await new_target()).account_id
    targets = [await new_target([webhook(receiver.url)], account_id=account_id) for _ in range(24)]
    run_ids = [(await accept(database, target))[0] for target in targets]
    async with at_work():
        await requested(receiver, 3)
    at_the_stop = len(receiver.requests)
    async with at_work() as notifier:
        views = [await ended(database, notifier, account_id, run_id) for run_id in run_ids]
    assert {view.status for view in views} == {"completed"} and at_the_stop < 24
    calls = Counter(request["headers"]["webhook-id"] for request in receiver.requests)
    assert len(calls) == 24 and set(calls.values()) == {1}
