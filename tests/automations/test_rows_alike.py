"""What a run shows of its steps is the same by either carrier: at work, and once it is cancelled."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from database import Database
from models.runs.run_views import RunView
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    cancel,
    requested,
    seen,
    statuses,
    until,
    webhook,
)

pytestmark = [pytest.mark.usefixtures("nothing_waits", "quick_watch")]
BOTH = pytest.mark.executions("shift", "workflow")
MUCH_LATER = {"max_attempts": 3, "initial_seconds": 3000, "max_seconds": 3600}


@pytest.fixture(autouse=True)
def answers(receiver: Endpoint) -> None:
    """Answers `/404` and the like so, and `/once` at first with 503. `/held` and the second `/once` wait."""

    async def answer(request: web.Request) -> web.Response:
        path, asked = request.path, [one["path"] for one in receiver.requests]
        if path == "/held" or (path == "/once" and asked.count(path) > 1):
            await receiver.open.wait()
        elif path == "/once" or path[1:].isdigit():
            return web.json_response({}, status=503 if path == "/once" else int(path[1:]))
        return web.json_response({})

    receiver.handler = answer


def shown(view: RunView) -> dict[str, Any]:
    """What is shown of each step that was not completed."""
    return {
        step.id: (
            step.status, step.items_total, step.items_failed, step.output,
            [one.attempt for one in step.attempt_log or []],
        )
        for step in view.steps if step.status != "completed"
    }  # fmt: skip


@BOTH
@pytest.mark.parametrize("items", [2, 25])
async def test_a_step_is_running_while_one_of_its_items_is_at_work_after_a_pause(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint, items: int
) -> None:
    each = {**webhook(receiver.url + "/{{ item }}", "each"), "for_each": "trigger", "max_concurrency": 1}
    target = await new_target([each])
    [run_id] = await accept(database, target, 1, ["once", *["ok"] * (items - 1)])

    def is_running(view: RunView) -> bool:
        return [(one.status, one.output) for one in view.steps] == [("running", None)]

    async with at_work():
        await requested(receiver, 2)
        view = await seen(database, target.account_id, run_id, is_running)
        receiver.open.set()
    assert view.status == "running"


def steps_of(case: str, url: str) -> list[dict[str, Any]]:
    beside: dict[str, Any] = {"needs": []}
    held, first = {**webhook(f"{url}/held", "held"), **beside}, {**webhook(f"{url}/ok", "first"), **beside}
    later = {"id": "late", "needs": ["first"]}
    return {
        "items": [{**webhook(url + "/{{ item }}", "each"), "for_each": "trigger", "on_error": "continue"}],
        "pause": [held, {**webhook(f"{url}/503", "late"), **beside, "retry": MUCH_LATER}],
        "delay": [held, first, {**later, "type": "delay", "config": {"seconds": 3000}}],
        "wait": [held, first, {**later, "type": "wait", "config": {"timeout": 3000}}],
    }[case]


NOTHING = ("cancelled", None, None, None, [])
CASES: dict[str, dict[str, Any]] = {
    "items": {"each": ("cancelled", 3, 2, None, [])},
    "pause": {"held": NOTHING, "late": ("cancelled", None, None, None, [1])},
    "delay": {"held": NOTHING, "late": NOTHING},
    "wait": {"held": NOTHING, "late": NOTHING},
}


@BOTH
@pytest.mark.parametrize(
    "case", [one if one == "wait" else pytest.param(one, marks=pytest.mark.long) for one in CASES]
)
async def test_a_cancelled_run_shows_what_has_happened_beside_a_call(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint, case: str
) -> None:
    target = await new_target(steps_of(case, receiver.url))
    [run_id] = await accept(database, target, 1, ["held", "404", "404"])

    async def rests() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select count(*)::int as n from run_step_items where run_id = %s and status = 'failed'",
                (run_id,),
            )
            row = await cursor.fetchone()
        assert row is not None
        return row["n"] == 2

    async with at_work() as notifier:
        if case == "items":
            await until(rests)
        else:
            await requested(receiver, 2)
            at_rest = {"held": "running", "late": "waiting"}
            await seen(
                database, target.account_id, run_id, lambda view: at_rest.items() <= statuses(view).items()
            )
        await cancel(database, notifier, target.account_id, run_id)
        await seen(database, target.account_id, run_id, lambda view: shown(view) == CASES[case])
    # Nothing that the worker has written since has changed that.
    view = await seen(database, target.account_id, run_id, lambda view: view.status == "cancelled")
    assert shown(view) == CASES[case]
