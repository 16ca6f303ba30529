"""Activities that are lost when part of what they did is done: points 7 to 9 of test_dispatch_points."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from aiohttp import web
from psycopg.sql import SQL, Identifier
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import ExecuteActivityInput

from activities import heartbeat
from database import Database
from language.definition import Definition
from language.records import StepError
from models import runs
from models.identifiers import new_id
from models.runs import QUEUED_CHANNEL
from sealing import Keyring
from settings import Settings
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    accept_each,
    cancel,
    ended,
    requested,
    statuses,
    transform,
    until,
    webhook,
    working,
)
from tests.automations.faults import Around, Do, Lost
from tests.automations.test_dispatcher import batch_of
from workflows import policies
from workflows.automations import AutomationBatch
from workflows.calls import Call, Timer
from workflows.interpreter import Interpreter
from workflows.messages import Batch, BatchRow, EarlyResults, StepResult

# Point 7


@pytest.mark.parametrize("table", ["runs", "run_steps"], ids=["before the call", "after it"])
async def test_who_waits_for_the_database_is_not_lost(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
) -> None:
    """A disk that is slow for half a minute, say: no other attempt begins, which would call again."""
    monkeypatch.setattr(policies, "HEARTBEAT", timedelta(seconds=2))
    monkeypatch.setattr(heartbeat, "_SECONDS", 0.2)
    attempts: list[int] = []

    async def lock_meanwhile(call: ExecuteActivityInput, do: Do) -> Any:
        if activity.info().activity_type != "send_many":
            return await do()
        attempts.append(activity.info().attempt)
        if activity.info().attempt > 1:
            return await do()
        async with database.transaction() as connection:
            await connection.execute(SQL("lock table {} in exclusive mode").format(Identifier(table)))
            doing = asyncio.ensure_future(do())
            await asyncio.sleep(5)
        return await doing

    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    async with at_work(lock_meanwhile) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, len(receiver.requests), attempts) == ("completed", 1, [1])


async def test_an_answer_that_cannot_be_stored_at_once_is_stored_later_and_not_asked_for_again(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    """As when Postgres restarts in that moment: all the connections of the worker are gone."""

    def answer(_: dict[str, Any]) -> web.Response:
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'doomed'"
            )
        return web.json_response("answered")

    receiver.answer = answer
    target = await new_target([webhook(receiver.url), transform("end", "call.body")])
    [run_id] = await accept(database, target)
    doomed = Database(database.url, name="doomed")
    await doomed.open()
    try:
        async with working(open_settings, client, doomed, keyring) as notifier:
            view = await ended(database, notifier, target.account_id, run_id)
    finally:
        await doomed.close()
    assert (view.status, view.output, len(receiver.requests)) == ("completed", "answered", 1)


@pytest.mark.parametrize("items", [False, True], ids=["a step", "items"])
async def test_what_is_committed_is_not_done_again(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint, items: bool
) -> None:
    async def lose_the_first_completion(call: ExecuteActivityInput, do: Do) -> Any:
        result = await do()
        if activity.info().activity_type == "send_many" and activity.info().attempt == 1:
            raise Lost
        return result

    receiver.answer = lambda request: web.json_response(len(receiver.requests))
    step = webhook(receiver.url) | ({"for_each": "trigger"} if items else {})
    target = await new_target([step, transform("end", "call")])
    [run_id] = await accept(database, target, 1, [1, 2, 3])
    async with at_work(lose_the_first_completion) as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and view.output == view.steps[0].output
    assert len(receiver.requests) == (3 if items else 1)


# Point 8


def losing(step_id: str, when: Callable[[], Awaitable[Any]]) -> Around:
    """Loses the first attempt of a step's first activity as soon as `when` is over."""
    lost = False

    async def around(call: ExecuteActivityInput, do: Do) -> Any:
        nonlocal lost
        if lost or getattr(call.args[0], "step", None) is None or call.args[0].step.id != step_id:
            return await do()
        lost = True
        doing = asyncio.ensure_future(do())
        await when()
        doing.cancel()
        raise Lost

    return around


async def test_a_row_that_was_signalled_early_keeps_its_first_result(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    async def hold(request: web.Request) -> web.Response:
        count = len(receiver.requests)
        if request.path != "/quick":
            await receiver.open.wait()
        return web.json_response(count)

    receiver.handler = hold
    steps = [webhook(receiver.url + "/{{ trigger }}"), webhook(f"{receiver.url}/next", "next")]
    target = await new_target([*steps, transform("end", "call.body")])
    ids = await accept_each(database, target, ["held", "quick"])
    # One row is at its next step when the activity is lost that still waits for the other.
    async with at_work(losing("call", lambda: requested(receiver, 3))) as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 4)
        receiver.open.set()
        held, quick = [await ended(database, notifier, target.account_id, run_id) for run_id in ids]
    assert (held.status, quick.status) == ("completed", "completed")
    assert Counter(receiver.paths) == {"/held": 2, "/quick": 1, "/next": 2}
    assert quick.output == quick.steps[0].output["body"]


async def test_what_later_steps_read_of_a_call_is_what_is_stored_of_it(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """An attempt that failed is done again with its lost activity, while the next one is on its way."""
    flaky = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal flaky
        if request.path == "/held":
            await receiver.open.wait()
            return web.json_response(0)
        flaky += 1
        if flaky == 3:
            receiver.open.set()
        return web.json_response(flaky, status=503 if flaky == 1 else 200)

    receiver.handler = answer
    call = webhook(receiver.url + "/{{ trigger }}") | {"retry": {"initial_seconds": 4}}
    target = await new_target([call, transform("end", "call.body")])
    ids = await accept_each(database, target, ["held", "flaky"])

    async def backs_off() -> bool:
        handle = client.get_workflow_handle_for(AutomationBatch.run, activity.info().workflow_id or "")
        [step] = await handle.query(AutomationBatch.live_steps, ids[1])
        return step.status == "waiting"

    async with at_work(losing("call", lambda: until(backs_off))) as notifier:
        view = await ended(database, notifier, target.account_id, ids[1])
        receiver.open.set()
        await ended(database, notifier, target.account_id, ids[0])
    assert view.status == "completed" and view.output == view.steps[0].output["body"]


def test_the_first_result_of_an_attempt_stands() -> None:
    steps = [webhook("http://127.0.0.1/"), transform("end", "call")]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    row = BatchRow(run_id=new_id(), started_at=now)
    batch = Batch(
        batch_id=new_id(), account_id=new_id(), automation_id=new_id(), version=1, priority=2, rows=[row],
        definition=Definition.model_validate({"name": "w", "steps": steps}).model_dump(by_alias=True),
    )  # fmt: skip
    interpreter = Interpreter(batch, lambda: now)
    [call] = interpreter.advance()
    assert isinstance(call, Call)
    failed = StepResult(
        run_id=row.run_id, attempt=1, status="failed", retry_after=9,
        error=StepError(code="http_status", message="503"),
    )  # fmt: skip
    interpreter.take_early_results(EarlyResults(step_id="call", results=[failed]))
    [timer] = interpreter.advance()
    assert isinstance(timer, Timer)
    done = failed.model_copy(update={"status": "completed", "retry_after": None, "error": None, "output": 1})
    interpreter.take_results(call, [done])
    assert interpreter.advance() == [] and interpreter.live_steps(row.run_id)[0].until == timer.until


# Point 9


@pytest.mark.parametrize("how", ["killed", "signalled"])
async def test_a_run_that_has_ended_stays_as_it_ended(
    at_work: Work, database: Database, client: Client, new_target: NewTarget, how: str
) -> None:
    times = 0

    async def end_twice(call: ExecuteActivityInput, do: Do) -> Any:
        nonlocal times
        result = await do()
        info = activity.info()
        if info.activity_type == "end_runs":
            times += 1
            if times == 1 and how == "killed":
                raise Lost
            if times == 1:
                handle = client.get_workflow_handle(info.workflow_id or "")
                await handle.signal("cancel_runs", [ending.run_id for ending in call.args[0].endings])
        return result

    target = await new_target([transform("end", "'done'")])
    [run_id] = await accept(database, target)
    async with at_work(end_twice) as notifier:
        first = await ended(database, notifier, target.account_id, run_id)
        await client.get_workflow_handle(f"automation/{await batch_of(database, run_id)}").result()
        assert times > 1
        async with database.connection() as connection:
            assert await runs.get(connection, target.account_id, run_id) == first
    assert (first.status, first.output) == ("completed", "done")


# Leaving for a long delay


@pytest.mark.parametrize("when", ["before it", "after it", "after it, its completion lost"])
async def test_a_run_can_be_cancelled_while_it_leaves_for_a_long_delay(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint, when: str
) -> None:
    times = 0

    async def cancel_while_parking(call: ExecuteActivityInput, do: Do) -> Any:
        nonlocal times
        if activity.info().activity_type != "park_runs" or times:
            return await do()
        times += 1
        if when == "before it":
            await cancel(client, database, target.account_id, run_id)
            return await do()
        result = await do()
        await cancel(client, database, target.account_id, run_id)
        if when != "after it":
            raise Lost
        return result

    wait = {"id": "wait", "type": "delay", "config": {"days": 30}}
    target = await new_target([wait, webhook(receiver.url, "after")])
    [run_id] = await accept(database, target)
    async with at_work(cancel_while_parking) as notifier:
        notifier.notify(QUEUED_CHANNEL)
        view = await ended(database, notifier, target.account_id, run_id)
        left = await batch_of(database, run_id)
        # A wake-up that finds nothing to wake does no harm.
        handle = client.get_workflow_handle(f"automation/{left}")
        info = (await handle.describe()).raw_description.workflow_execution_info
        late = info.execution_time.ToDatetime() - info.start_time.ToDatetime()
        assert (late > timedelta(days=29)) == (when != "before it")
    assert times == 1 and view.status == "cancelled"
    assert statuses(view) == {"wait": "cancelled", "after": "skipped"} and receiver.requests == []
