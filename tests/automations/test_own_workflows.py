"""Runs with Temporal workflows of their own: what is seen of them there, and what may be done to them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError

from database import Connection, Database
from models.runs import run_writes
from models.runs.run_writes import Change, WriteResult
from notifications import Notifier
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    cancel,
    ended,
    events_of,
    requested,
    transform,
    until,
    waiting,
    webhook,
)
from tests.automations.own_runs import (
    approval,
    begun,
    called,
    delay,
    is_cancelled,
    performers,
    reset,
    summary_of,
    timers,
)

CANARY = "canary@example.com"

pytestmark = pytest.mark.usefixtures("quick_watch")


# ---- what is seen


async def test_a_run_is_seen_as_a_workflow_that_names_it_and_its_steps(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    look = {"id": "visitor", "type": "ip_lookup", "config": {"field": "trigger.ip"}}
    target = await new_target([look, webhook(receiver.url), transform("end", "call.status")])
    run_id, handle = await begun(notifier, client, database, target, {"ip": "8.8.8.8"})
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output) == ("completed", 200)
    assert await handle.result() == "completed"
    description = await handle.describe()
    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert {name: value for name, value in found.items() if name.startswith("Vedette")} == {
        "VedetteAccount": str(target.account_id),
        "VedetteKind": "run",
        "VedetteDefinition": str(target.automation_id),
        "VedetteTrigger": "manual",
        "VedetteVersion": 1,
    }
    assert await description.static_summary() == "run of version 1, manual"
    assert await called(handle) == ["visitor: ip_lookup", "call: webhook"]
    assert await timers(handle) == []


async def test_a_run_of_one_call_is_written_once(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As by shift: what comes before the call and after it goes with its record."""
    written: list[UUID] = []
    write = run_writes.record_changes_if_claimed

    async def note(connection: Connection, changes: list[Change], *announce: Any) -> WriteResult:
        written.extend(change.run_id for change in changes)
        return await write(connection, changes, *announce)

    monkeypatch.setattr(run_writes, "record_changes_if_claimed", note)
    steps = [transform("before", "`1`"), webhook(receiver.url), transform("end", "call.status")]
    target = await new_target(steps)
    run_id, handle = await begun(notifier, client, database, target)
    assert await handle.result() == "completed"
    assert written.count(run_id) == 1


async def test_a_retry_is_an_activity_of_its_own_after_a_timer(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    receiver.answer = lambda _: web.json_response({}, status=503 if len(receiver.requests) < 2 else 200)
    target = await new_target([webhook(receiver.url)])
    run_id, handle = await begun(notifier, client, database, target)
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.steps[0].attempts) == ("completed", 2)
    assert await performers(database, run_id) == {"call": "activity"}
    assert await handle.result() == "completed"
    assert await called(handle) == ["call: webhook", "call: webhook (attempt 2)"]
    [pause] = await timers(handle)
    assert pause.startswith("call: attempt 2 at 20")
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 1


WAITS = {"a delay": delay(4), "an approval": approval(4) | {"on_error": "continue"}}


@pytest.mark.parametrize("case", WAITS)
async def test_a_wait_is_a_timer_that_says_until_when(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, case: str
) -> None:
    step = WAITS[case]
    target = await new_target([step, transform("end", "'done'")])
    run_id, handle = await begun(notifier, client, database, target)
    await waiting(database, target.account_id, run_id)
    [timer] = await until(lambda: events_of(handle, "timer_started"))
    assert summary_of(timer).startswith(f"{step['id']}: until 20")
    length = timer.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
    assert timedelta(seconds=3) < length <= timedelta(seconds=4)
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output) == ("completed", "done")
    assert await handle.result() == "completed"


async def test_a_history_can_be_read_without_a_key_and_holds_no_value(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Whoever operates Temporal reads ids and names of steps."""

    def answer(_: dict[str, Any]) -> web.Response:
        return web.json_response({"said": CANARY}, status=503 if len(receiver.requests) < 2 else 200)

    receiver.answer = answer
    call = webhook(receiver.url + "/{{ trigger.mail }}", body="{{ trigger.mail }}")
    target = await new_target([call, transform("end", "[trigger, call]")])
    run_id, handle = await begun(notifier, client, database, target, {"mail": CANARY})
    assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    await handle.result()
    history = await handle.fetch_history()
    text = b"".join(event.SerializeToString() for event in history.events)
    assert b"canary" not in text and receiver.url.encode() not in text
    [started] = await events_of(handle, "workflow_execution_started")
    [given] = started.workflow_execution_started_event_attributes.input.payloads
    assert json.loads(given.data)["run_id"] == str(run_id)
    encodings = {payload.metadata["encoding"] for payload in payloads_in(history.events)}
    assert encodings <= {b"json/plain", b"binary/null"}


def payloads_in(message: Any) -> list[Payload]:
    """All payloads within messages, at any depth."""
    if isinstance(message, Payload):
        return [message]
    if hasattr(message, "ListFields"):
        return [payload for _, value in message.ListFields() for payload in payloads_in(value)]
    if hasattr(message, "items"):
        return [payload for _, value in message.items() for payload in payloads_in(value)]
    if hasattr(message, "__iter__") and not isinstance(message, str | bytes):
        return [payload for value in message for payload in payloads_in(value)]
    return []


async def test_a_query_tells_how_far_a_run_is(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    steps = [webhook(receiver.url, "first"), webhook(f"{receiver.url}/held", "second"), delay(3600)]
    target = await new_target(steps)
    run_id, handle = await begun(notifier, client, database, target)
    await requested(receiver, 2)
    assert await handle.query("progress") == "- first: completed\n- second: webhook: running"
    receiver.open.set()
    await waiting(database, target.account_id, run_id)

    async def told() -> str | None:
        progress = await handle.query("progress")
        return progress if "waiting" in progress else None

    assert (await until(told)).startswith("- first: completed\n- second: completed\n- wait: until 20")
    await cancel(database, notifier, target.account_id, run_id)


async def test_few_items_are_seen_each_and_many_as_one(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    each = {**webhook(receiver.url, "each", body="{{ item }}"), "for_each": "trigger"}
    for count in (5, 120):
        target = await new_target([each, transform("end", "length(each)")])
        run_id, handle = await begun(notifier, client, database, target, list(range(count)))
        assert (await ended(database, notifier, target.account_id, run_id)).output == count
        assert await handle.result() == "completed"
        few = [f"each[{item}]: webhook" for item in range(count)]
        many = [f"each: webhook, items {some} of 120" for some in ("0-49", "50-99", "100-119")]
        assert await called(handle) == (few if count == 5 else many)
    assert len(receiver.requests) == 125


# ---- what may be done in Temporal


@pytest.mark.parametrize("where", ["call", "wait"])
async def test_a_run_is_cancelled_at_once_when_its_workflow_is(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    where: str,
) -> None:
    step = webhook(f"{receiver.url}/held", "it") if where == "call" else delay(3600, "it")
    target = await new_target([webhook(receiver.url, "before"), step, transform("after", "'never'")])
    run_id, handle = await begun(notifier, client, database, target)
    if where == "call":
        await requested(receiver, 2)
    else:
        await waiting(database, target.account_id, run_id)
    await handle.cancel()
    await is_cancelled(database, notifier, target, run_id)
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED


@pytest.mark.parametrize("where", ["call", "wait"])
async def test_a_run_whose_workflow_was_terminated_is_cancelled(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    where: str,
) -> None:
    step = webhook(f"{receiver.url}/held", "it") if where == "call" else delay(3600, "it")
    target = await new_target([webhook(receiver.url, "before"), step, transform("after", "'never'")])
    run_id, handle = await begun(notifier, client, database, target)
    if where == "call":
        await requested(receiver, 2)
    else:
        await waiting(database, target.account_id, run_id)
    await handle.terminate()
    await is_cancelled(database, notifier, target, run_id)
    assert receiver.paths == (["/", "/held"] if where == "call" else ["/"])


async def test_a_run_whose_workflow_was_reset_does_nothing_twice(
    notifier: Notifier, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    calls = [webhook(f"{receiver.url}/one", "one"), webhook(f"{receiver.url}/held", "two")]
    target = await new_target([*calls, transform("end", "'done'")])
    run_id, handle = await begun(notifier, client, database, target)
    await requested(receiver, 2)
    [first, *_] = await events_of(handle, "workflow_task_completed")
    await reset(client, handle, first.event_id)
    receiver.open.set()
    view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output) == ("completed", "done")
    assert receiver.paths.count("/one") == 1
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == 2
    # Whichever of the two workflows had the last word.
    assert await client.get_workflow_handle(handle.id).result() in ("completed", "by_shift")
    before = len(receiver.requests)
    await reset(client, client.get_workflow_handle(handle.id), first.event_id)
    assert await client.get_workflow_handle(handle.id).result() == "completed"
    assert len(receiver.requests) == before


@pytest.mark.parametrize("where", ["call", "wait"])
async def test_the_workflow_of_a_run_that_was_cancelled_is_cancelled(
    notifier: Notifier,
    client: Client,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    where: str,
) -> None:
    step = webhook(f"{receiver.url}/held", "it") if where == "call" else delay(3600, "it")
    target = await new_target([webhook(receiver.url, "before"), step, transform("after", "'never'")])
    run_id, handle = await begun(notifier, client, database, target)
    if where == "call":
        await requested(receiver, 2)
    else:
        await waiting(database, target.account_id, run_id)
    await cancel(database, notifier, target.account_id, run_id)
    await is_cancelled(database, notifier, target, run_id)
    try:
        # One that asks what is next before it is told finds that the run has ended.
        assert await handle.result() == "cancelled"
    except WorkflowFailureError:
        assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED
