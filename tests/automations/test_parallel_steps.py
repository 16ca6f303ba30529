"""Steps beside each other: what a wait begins while a call is under way is done once."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from database import Database
from models.runs import resumption
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.engine import Endpoint, NewTarget, Work, accept, ended, requested, statuses, webhook
from tests.automations.own_runs import approval, delay

pytestmark = pytest.mark.usefixtures("nothing_waits")


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("first_fails", [False, True])
@pytest.mark.parametrize("wait", ["delay", "approval"])
async def test_a_call_that_begins_during_another_is_made_once(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    wait: str,
    first_fails: bool,
) -> None:
    """Although the first was the only one when it began, and ends while the second is under way."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/first":
            await requested(receiver, 2)
            return web.json_response({}, status=404 if first_fails else 200)
        # Until whatever follows from the end of the first has had its time.
        await asyncio.sleep(1)
        return web.json_response({})

    receiver.handler = answer
    wait_step = delay(2.5) if wait == "delay" else approval()
    steps: list[dict[str, Any]] = [
        {**webhook(f"{receiver.url}/first", "first"), "needs": []},
        {**wait_step, "needs": []},
        {**webhook(f"{receiver.url}/second", "second"), "needs": [wait_step["id"]]},
    ]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        await requested(receiver, 1)
        if wait == "approval":
            await resume(database, notifier, run_id)
        view = await ended(database, notifier, target.account_id, run_id)
    first = "failed" if first_fails else "completed"
    assert statuses(view) == {"first": first, wait_step["id"]: "completed", "second": "completed"}
    assert receiver.paths == ["/first", "/second"]


@pytest.mark.long
@pytest.mark.executions("shift", "workflow")
@pytest.mark.usefixtures("quick_watch")
async def test_each_answer_to_a_run_at_work_is_taken_at_once(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    names = ["one", "two", "three"]
    steps: list[dict[str, Any]] = [{**webhook(f"{receiver.url}/held", "held"), "needs": []}]
    steps += [{**approval(), "id": name, "needs": []} for name in names]
    steps += [{**webhook(f"{receiver.url}/{name}", f"after_{name}"), "needs": [name]} for name in names]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        await requested(receiver, 1)
        async with asyncio.timeout(20):
            for asked, name in enumerate(names, 2):
                await resume(database, notifier, run_id, name)
                await requested(receiver, asked)
        receiver.open.set()
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert receiver.paths == ["/held", "/one", "/two", "/three"]


async def resume(database: Database, notifier: Notifier, run_id: UUID, step_id: str = "approval") -> None:
    async with database.transaction() as connection:
        await resumption.resume(connection, run_id, step_id, {})
    notifier.notify(QUEUED_CHANNEL)
