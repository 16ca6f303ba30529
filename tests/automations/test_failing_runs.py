"""Runs that fail by one step while another has a call under way: that call ends, and nothing follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from temporalio.worker import ExecuteActivityInput

from database import Database
from models.automations.run_targets import RunTarget
from models.runs.run_views import RunView
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    requested,
    statuses,
    transform,
    until,
    waiting,
    webhook,
)
from tests.automations.faults import Do
from tests.automations.own_runs import delay

pytestmark = [pytest.mark.usefixtures("nothing_waits", "quick_watch")]
BOTH = pytest.mark.executions("shift", "workflow")
Steps = list[dict[str, Any]]
Run = Callable[..., Any]


def beside(step: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A step that begins with the run."""
    return {**step, "needs": [], **more}


def timeout(seconds: float) -> dict[str, Any]:
    """A step that nobody answers: it fails the run."""
    return beside({"id": "w", "type": "wait", "config": {"timeout": seconds}})


@pytest.fixture
def run(at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint) -> Run:
    """Runs steps; requests for `/slow…` take two seconds, and those for `…fails` give 404."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.startswith("/slow"):
            await asyncio.sleep(2)
        return web.json_response({}, status=404 if request.path.endswith("fails") else 200)

    receiver.handler = answer

    async def run_steps(steps: Steps, given: Any = None) -> RunView:
        target: RunTarget = await new_target(steps)
        [run_id] = await accept(database, target, 1, given)
        async with at_work() as notifier:
            return await ended(database, notifier, target.account_id, run_id)

    return run_steps


@BOTH
async def test_what_follows_a_call_is_not_begun(run: Run, receiver: Endpoint) -> None:
    after = webhook(f"{receiver.url}/after", "after") | {"needs": ["a"]}
    view = await run([beside(webhook(f"{receiver.url}/slow", "a")), after, timeout(0.5)])
    assert receiver.paths == ["/slow"]
    assert statuses(view) == {"a": "completed", "after": "skipped", "w": "failed"}
    assert view.error is not None and view.error["step"] == "w"


@BOTH
@pytest.mark.parametrize(("many", "at_once"), [(4, 1), (24, 4)])
async def test_no_further_item_is_begun(run: Run, receiver: Endpoint, many: int, at_once: int) -> None:
    """And those of the step are counted, though it ends before they do."""
    items = webhook(receiver.url + "/slow{{ item }}", "a")
    items = beside(items, for_each="trigger", max_concurrency=at_once)
    view = await run([items, timeout(0.5)], list(range(many)))
    assert len(receiver.paths) == at_once
    [a] = [step for step in view.steps if step.id == "a"]
    assert (a.status, a.items_total) == ("cancelled", many)


@BOTH
async def test_a_delay_that_ends_later_beside_many_items_is_cancelled(run: Run, receiver: Endpoint) -> None:
    items = webhook(receiver.url + "/slow{{ item }}", "a")
    items = beside(items, for_each="trigger", max_concurrency=2)
    view = await run([items, beside(delay(1.2, "d")), timeout(0.5)], list(range(24)))
    assert statuses(view) == {"a": "cancelled", "d": "cancelled", "w": "failed"}


@BOTH
async def test_a_step_that_waits_for_the_call_is_skipped(run: Run, receiver: Endpoint) -> None:
    view = await run(
        [
            beside(webhook(f"{receiver.url}/slow", "a")),
            transform("b", "'b'", needs=["a"]),
            beside(delay(0.3, "d")),
            transform("e", "abs('x')", needs=["d"]),
        ]
    )
    assert statuses(view) == {"a": "completed", "b": "skipped", "d": "completed", "e": "failed"}


@BOTH
async def test_a_delay_ends_when_it_ends_though_a_call_is_under_way(run: Run, receiver: Endpoint) -> None:
    view = await run([beside(webhook(f"{receiver.url}/slow", "a")), beside(delay(0.3, "d"))])
    [a, d] = view.steps
    assert d.completed_at is not None and a.completed_at is not None
    assert (a.completed_at - d.completed_at).total_seconds() > 0.5


@BOTH
async def test_the_failure_that_comes_first_is_the_runs(run: Run, receiver: Endpoint) -> None:
    view = await run(
        [
            beside(webhook(f"{receiver.url}/slow_fails", "a")),
            beside(webhook(f"{receiver.url}/fails", "b")),
        ]
    )
    assert view.error is not None and view.error["step"] == "b"


@BOTH
async def test_a_run_whose_many_children_wait_waits_with_them(
    at_work: Work, database: Database, new_target: NewTarget
) -> None:
    """Its workflow executes nothing meanwhile."""
    performed: list[str] = []

    async def count(given: ExecuteActivityInput, do: Do) -> Any:
        performed.append(given.fn.__name__)
        return await do()

    child = await new_target([{"id": "w", "type": "wait", "config": {"timeout": 3600}}], execution="shift")
    step = {"id": "c", "type": "workflow", "config": {"workflow_id": str(child.automation_id)}}
    target = await new_target([{**step, "for_each": "trigger"}], child.account_id)
    [run_id] = await accept(database, target, 1, list(range(22)))
    async with at_work(count):

        async def all_wait() -> bool:
            async with database.connection() as connection:
                cursor = await connection.execute(
                    "select count(*) as n from run_work where status = 'waiting'"
                )
                row = await cursor.fetchone()
            return bool(row and row["n"] == 23)

        await until(all_wait)
        await waiting(database, target.account_id, run_id)
    assert "perform_step" not in performed


@pytest.mark.executions("workflow")
async def test_a_place_is_held_while_a_call_is_under_way(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """Although the run has decided something since the call began."""
    steps = [beside(webhook(f"{receiver.url}/held", "a")), beside(delay(0.3, "d")), beside(delay(0.6, "e"))]
    target = await new_target(steps)
    run_ids = await accept(database, target, 12)
    async with at_work() as notifier:
        await requested(receiver, 8)

        async def have_decided() -> bool:
            async with database.connection() as connection:
                cursor = await connection.execute(
                    "select count(*) as n from run_steps where step_id = 'e' and run_id = any(%s)", (run_ids,)
                )
                row = await cursor.fetchone()
            return bool(row and row["n"] == 8)

        await until(have_decided)
        assert len(receiver.requests) == 8
        receiver.open.set()
        views = [await ended(database, notifier, target.account_id, run_id) for run_id in run_ids]
    assert {view.status for view in views} == {"completed"}
