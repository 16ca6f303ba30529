"""An item of a step fails while others of it are under way: the step ends after them, by either carrier."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from database import Database
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from tests.automations.engine import Endpoint, NewTarget, accept, ended, requested, webhook

ITEMS, FAILED = 8, (0, 5)


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("beside", [2, 60], ids=["each an activity", "together"])
@pytest.mark.parametrize("is_handled", [True, False])
async def test_a_step_ends_after_all_its_items(
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
    beside: int,
    is_handled: bool,
) -> None:
    under_way: set[str] = set()
    at_handler: list[set[str]] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/handle":
            at_handler.append({*under_way})
        if not request.path.startswith("/each/"):
            return web.json_response({})
        under_way.add(request.path)
        item = int(request.path.removeprefix("/each/"))
        # The first fails while the others are under way; what follows from that has its time.
        await requested(receiver, ITEMS + beside)
        await asyncio.sleep(0.1 if item == 0 else 1.5)
        under_way.remove(request.path)
        return web.json_response({}, status=404 if item in FAILED else 200)

    receiver.handler = answer
    side: dict[str, Any] = {"needs": []}
    each = {**webhook(receiver.url + "/each/{{ item }}", "each"), "for_each": f"trigger[:{ITEMS}]", **side}
    steps: list[dict[str, Any]] = [
        each,
        {**webhook(receiver.url + "/beside", "beside"), "for_each": f"trigger[:{beside}]", **side,
         "max_concurrency": 20},
    ]  # fmt: skip
    if is_handled:
        each["on_error"] = ["handle"]
        steps.append({**webhook(receiver.url + "/handle", "handle"), "needs": ["each"]})
    target = await new_target(steps)
    [run_id] = await accept(database, target, 1, [*range(max(ITEMS, beside))])
    notifier.notify(QUEUED_CHANNEL)
    view = await ended(database, notifier, target.account_id, run_id)
    step = next(step for step in view.steps if step.id == "each")
    assert (step.status, step.items_failed) == ("failed", len(FAILED))
    assert view.status == ("completed" if is_handled else "failed")
    assert at_handler == ([set()] if is_handled else [])
