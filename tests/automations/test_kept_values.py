"""A process keeps few values of its runs in memory; their steps read the others from the rows."""

from __future__ import annotations

import asyncio
import gc
from uuid import UUID

import pytest
from aiohttp import web

import worker
from database import Database
from engine.run_room import ProcessRoom, SharedRoom
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept_each,
    ended,
    requested,
    transform,
    webhook,
)

EXECUTIONS = ("shift", "workflow")
RUNS, BYTES, MOST_BYTES = 6, 60_000, 150_000


@pytest.fixture(params=[MOST_BYTES])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ProcessRoom:
    """The room of the worker, of which an account gets half."""
    made = ProcessRoom(values=2 * request.param)
    monkeypatch.setattr(worker, "ProcessRoom", lambda: made)
    return made


def named(name: str) -> int:
    """Return the number of objects in memory that have this name in them."""
    return sum(type(one) is dict and name in one for one in gc.get_objects())


async def test_runs_begin_however_large_their_inputs_are_and_few_inputs_are_kept(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    room: ProcessRoom,
) -> None:
    steps = [
        transform("n", "length(trigger.input_text)"),
        webhook(f"{receiver.url}/held", body="{{ trigger.input_text }}"),
    ]
    target = await new_target(steps)
    texts = [letter * BYTES for letter in "abcdef"]
    run_ids = await accept_each(database, target, [{"input_text": text} for text in texts])
    async with at_work() as notifier:
        await requested(receiver, RUNS)
        assert MOST_BYTES - BYTES < room.values.used <= MOST_BYTES
        # Those of the calls under way that have read it from the row.
        assert named("input_text") <= RUNS
        receiver.open.set()
        views = await asyncio.gather(*(ended(database, notifier, target.account_id, one) for one in run_ids))
    assert {view.status for view in views} == {"completed"}
    assert sorted(request["body"] for request in receiver.requests) == texts
    assert room.values.used == 0


async def test_few_outputs_are_kept_and_each_step_sees_all_it_reads(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    room: ProcessRoom,
) -> None:
    receiver.answer = lambda request: web.json_response({"output_text": request["body"][:1] * BYTES})
    steps = [
        transform("made", "{made_text: join('', [trigger.text, trigger.text])}"),
        webhook(f"{receiver.url}/answers", "answer", body="{{ trigger.text }}"),
        {
            **webhook(f"{receiver.url}/items", "each", body="{{ item }}"),
            "for_each": "[trigger.text, trigger.text]",
        },
        webhook(f"{receiver.url}/held", "last", body="{{ length(made.made_text) }}"),
        transform(
            "seen",
            "{made: length(made.made_text), answer: answer.body.output_text,"
            " each: join('', each[*].body.output_text)}",
        ),
    ]
    target = await new_target(steps)
    letters = "abcdef"
    run_ids = await accept_each(database, target, [{"text": letter * 20_000} for letter in letters])
    async with at_work() as notifier:
        await requested(receiver, 4 * RUNS)
        # A run always keeps 1 KiB.
        assert room.values.used <= MOST_BYTES + RUNS * 1024
        assert named("output_text") <= MOST_BYTES // BYTES
        receiver.open.set()
        views = await asyncio.gather(*(ended(database, notifier, target.account_id, one) for one in run_ids))
    outputs = [view.output for view in views]
    assert outputs == [
        {"made": 40_000, "answer": letter * BYTES, "each": letter * 2 * BYTES} for letter in letters
    ]
    assert room.values.used == 0


@pytest.mark.parametrize("room", [MOST_BYTES, 0], indirect=True, ids=["some room", "no room"])
async def test_items_of_a_large_array_get_their_values_a_page_at_a_time_or_each_by_itself(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    room: ProcessRoom,
) -> None:
    receiver.answer = lambda request: web.Response(status=503 if fails.pop(request["body"], 0) else 200)
    each = webhook(f"{receiver.url}/items", "each", body="{{ item.name }}") | {"for_each": "trigger.items"}
    target = await new_target([each, transform("seen", "length(each)")])
    names = [f"{number:03}" for number in range(60)]
    fails = dict.fromkeys(names[::7], 1)
    items = [{"name": name, "item_text": "x" * 3_000} for name in names]
    [run_id] = await accept_each(database, target, [{"items": items}])
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert (view.status, view.output) == ("completed", len(names))
    assert {request["body"] for request in receiver.requests} == {*names}
    assert len(receiver.requests) == len(names) + len(names[::7])
    assert room.values.used == 0


class RoomOnce(SharedRoom):
    """Has room for one value."""

    asked = 0

    def left_for(self, account_id: UUID) -> int:
        self.asked += 1
        return super().left_for(account_id) if self.asked == 1 else 0


async def test_a_value_without_room_any_more_is_written_before_a_call_reads_it(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint, room: ProcessRoom
) -> None:
    """A workflow decides with the value in memory; the activity that makes the call has no room for it."""
    room.values = RoomOnce(MOST_BYTES)
    steps = [
        transform("made", "{text: join('', [trigger.text, trigger.text])}"),
        webhook(receiver.url, "call", body="{{ length(made.text) }}"),
    ]
    target = await new_target(steps)
    [run_id] = await accept_each(database, target, [{"text": "x" * 800}])
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    assert [request["body"] for request in receiver.requests] == ["1600"]
