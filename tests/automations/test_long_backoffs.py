"""Backoffs of more than two seconds: the run leaves its executor, and holds no place meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from database import Database, Notifier
from models.run_views import RunView
from models.runs import QUEUED_CHANNEL
from models.targets import Target
from tests.automations.engine import Endpoint, NewTarget, accept, ended, statuses, transform, waiting, webhook


def busy_at_first(seconds: int) -> Any:
    """Answers 503 to the first request of each call and item, asking for a pause."""
    seen: set[str] = set()

    def answer(request: dict[str, Any]) -> web.Response:
        if (call := request["headers"]["webhook-id"]) in seen:
            return web.json_response({"ok": True})
        seen.add(call)
        return web.json_response({}, status=503, headers={"Retry-After": str(seconds)})

    return answer


async def parked(database: Database, notifier: Notifier, target: Target) -> RunView:
    [run_id] = await accept(database, target)
    notifier.notify(QUEUED_CHANNEL)
    return await waiting(database, target.account_id, run_id)


async def test_a_run_whose_step_backs_off_for_long_waits_outside(
    database: Database, notifier: Notifier, new_target: NewTarget, receiver: Endpoint
) -> None:
    receiver.answer = busy_at_first(600)
    view = await parked(database, notifier, await new_target([webhook(receiver.url)]))
    [step] = view.steps
    assert (step.status, step.attempts) == ("waiting", 1)
    assert step.output["until"].endswith("Z")


@pytest.mark.parametrize("for_each", [{}, {"for_each": "[1, 2, 3]"}], ids=["a step", "items"])
async def test_it_goes_on_with_the_next_attempt(
    database: Database,
    notifier: Notifier,
    new_target: NewTarget,
    receiver: Endpoint,
    for_each: dict[str, Any],
) -> None:
    receiver.answer = busy_at_first(4)
    target = await new_target([{**webhook(receiver.url), **for_each}, transform("end", "'end'")])
    view = await parked(database, notifier, target)
    view = await ended(database, notifier, target.account_id, view.id)
    assert statuses(view) == {"call": "completed", "end": "completed"}
    assert view.steps[0].attempts == 2
    calls = [request["headers"]["webhook-id"] for request in receiver.requests]
    assert sorted(calls) == sorted([*set(calls)] * 2), json.dumps(calls)
