"""A process without room for more calls makes those of each run one after the other."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

import worker
from database import Database
from engine.run_room import ProcessRoom
from tests.automations.engine import Endpoint, NewTarget, Work, accept_each, ended, transform, webhook

EXECUTION = "shift"
RUNS = 3


async def test_runs_make_their_calls_one_after_the_other_where_there_is_no_room(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room, under_way, most = ProcessRoom(calls=0), 0, 0
    monkeypatch.setattr(worker, "ProcessRoom", lambda: room)

    async def answer(_request: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.005)
        under_way -= 1
        return web.json_response({"ok": True})

    receiver.handler = answer
    steps = [
        webhook(receiver.url, "each", body="{{ item }}") | {"for_each": "trigger.items", "needs": []},
        *(webhook(receiver.url, f"one{number}", body={}) | {"needs": []} for number in range(3)),
        transform("seen", "length(each)", needs=["each", "one0", "one1", "one2"]),
    ]
    target = await new_target(steps)
    run_ids = await accept_each(database, target, [{"items": [1, 2, 3, 4, 5]}] * RUNS)
    async with at_work() as notifier:
        views = await asyncio.gather(*(ended(database, notifier, target.account_id, one) for one in run_ids))
    assert [(view.status, view.output) for view in views] == [("completed", 5)] * RUNS
    assert len(receiver.requests) == 8 * RUNS
    assert most <= RUNS
    assert room.calls.used == 0
