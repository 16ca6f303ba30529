"""MemoryBudget: who waits for room, who goes on, and that room comes back."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Coroutine
from typing import Any

import orjson
import pytest

from outbound.client import Outbound
from outbound.memory import CALL_BYTES, BodyCost, MemoryBudget, Reservation
from outbound.requests import OutgoingRequest
from tests.outbound.conftest import Request, Serve
from tests.outbound.raw import LOOPBACK, response
from tests.stacks import eventually

LIMIT = 100 * CALL_BYTES
LARGE = 70 * CALL_BYTES  # beside the quarter that is kept for calls, this fits once


async def begun(waiting: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """The task, after every callback that is due."""
    task = asyncio.create_task(waiting)
    for _ in range(10):
        await asyncio.sleep(0)
    return task


async def full(budget: MemoryBudget) -> tuple[Reservation, Reservation]:
    """Two calls that leave no room for others to grow: one within the limit, one over it."""
    large, over = budget.reservation(), budget.reservation()
    for room in (large, over):
        await room.grow(CALL_BYTES)
    await large.grow(LARGE)
    await over.grow(10 * CALL_BYTES)
    return large, over


async def test_a_call_begins_while_others_wait_for_room_to_grow() -> None:
    budget = MemoryBudget(LIMIT)
    _held = await full(budget)
    with budget.reservation() as waits, budget.reservation() as small:
        await waits.grow(CALL_BYTES)
        waiting = await begun(waits.grow(2 * CALL_BYTES))
        await small.grow(CALL_BYTES)
        assert not waiting.done()
        waiting.cancel()


async def test_one_call_at_a_time_goes_on_over_the_limit() -> None:
    budget = MemoryBudget(LIMIT)
    older = budget.reservation()
    await older.grow(CALL_BYTES)
    _large, over = await full(budget)
    waiting = await begun(older.grow(LARGE))
    await over.grow(2 * LARGE)
    assert budget.free < 0 and not waiting.done()
    over.release()
    await waiting


async def test_of_those_that_wait_the_oldest_is_first() -> None:
    budget = MemoryBudget(LIMIT)
    old, young = budget.reservation(), budget.reservation()
    for room in (old, young):
        await room.grow(CALL_BYTES)
    _large, over = await full(budget)
    second, first = await begun(young.grow(LARGE)), await begun(old.grow(LARGE))
    over.release()
    await first
    assert not second.done()
    old.release()
    await second


async def test_a_cancelled_wait_takes_no_room() -> None:
    budget = MemoryBudget(LIMIT)
    held = await full(budget)
    with budget.reservation() as room:
        await room.grow(CALL_BYTES)
        waiting = await begun(room.grow(LARGE))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    for one in held:
        one.release()
    assert budget.free == LIMIT


async def test_a_reservation_that_is_dropped_gives_its_room_back() -> None:
    budget = MemoryBudget(LIMIT)
    room = budget.reservation()
    await room.grow(CALL_BYTES)
    assert budget.free == LIMIT - CALL_BYTES
    del room
    gc.collect()
    await eventually(lambda: budget.free == LIMIT, what="the room is back")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([{"a": 1}] * 20_000, id="small objects"),
        pytest.param([[1]] * 20_000, id="lists"),
        pytest.param([{"id": n, "name": f"n{n}", "tags": ["a"]} for n in range(5_000)], id="records"),
        pytest.param({f"key{n}": n + 1000 for n in range(20_000)}, id="a map"),
        pytest.param("x" * 100_000 + "\N{GRINNING FACE}", id="a wide string"),
        pytest.param([f"é{n}" for n in range(20_000)], id="strings"),
    ],
)
def test_json_costs_about_what_it_takes_in_memory(value: Any) -> None:
    body = orjson.dumps(value)
    cost = BodyCost(json=True)
    for start in range(0, len(body), 1000):
        cost.add(body[start : start + 1000])
    tracemalloc.start()
    decoded = orjson.loads(body)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded and 0.8 * taken < cost.size < 3 * taken


async def test_an_answer_keeps_its_room_until_it_is_released(serve: Serve) -> None:
    server = await serve(response(b"x" * 100_000))
    async with Outbound(LOOPBACK, memory=MemoryBudget(LIMIT)) as outbound:
        with outbound.memory.reservation() as room:
            await outbound.send(OutgoingRequest("GET", server.url()), room)
            assert outbound.memory.free == LIMIT - 100_000
        assert outbound.memory.free == LIMIT
        await outbound.send(OutgoingRequest("GET", server.url()))
        assert outbound.memory.free == LIMIT


async def test_a_body_is_not_read_without_room_and_its_time_stands_still(serve: Serve) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"x" * 600_000))

    server = await serve(answer)
    budget = MemoryBudget(LIMIT)
    large, over = await full(budget)
    async with Outbound(LOOPBACK, memory=budget) as outbound:
        call = asyncio.create_task(outbound.send(OutgoingRequest("GET", server.url(), timeout=0.3)))
        done, _ = await asyncio.wait([call], timeout=0.6)
        assert not done
        over.release()
        large.release()
        assert len((await call).body) == 600_000
    assert budget.free == LIMIT
