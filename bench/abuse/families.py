"""Accounts that begin many runs at once, with a neighbour beside them: families, full limits, trees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from bench.abuse.cases import Tally, case, milliseconds
from bench.abuse.target import Account, Target

_SHAPES = ((200, 1), (1, 800), (40, 20))
_SMALL_SHAPES = ((20, 1), (1, 60), (4, 10))
_FULL_SECONDS, _BRIEF_SECONDS = 600, 5
_NEIGHBOUR_PAUSE = 0.25


@asynccontextmanager
async def _neighbour(target: Target, tally: Tally) -> AsyncGenerator[None]:
    """Run a neighbour's workflow again and again beside the block; it becomes at most four times as slow."""
    account = await target.new_account()
    workflow = await account.workflow([{"id": "t", "type": "transform", "config": {"expression": "trigger"}}])

    async def once() -> float:
        start = time.perf_counter()
        await account.run(workflow, {"n": 1})
        return time.perf_counter() - start

    alone = median([await once() for _ in range(10)])
    beside: list[float] = []

    async def for_ever() -> None:
        while True:
            beside.append(await once())
            await asyncio.sleep(_NEIGHBOUR_PAUSE)

    task = asyncio.create_task(for_ever())
    try:
        yield
    finally:
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
    tally.check(isinstance(ended, asyncio.CancelledError), "the neighbour's runs all complete", ended)
    if beside:
        worst = f"{milliseconds(max(beside))} at most"
        tally.figures["neighbour"] = f"{milliseconds(alone)} → {milliseconds(median(beside))}, {worst}"
    if target.full:
        tally.check(median(beside) <= 4 * alone, "the neighbour's p50 stays within four times its own")


async def _total(account: Account, status: str) -> int:
    answer = await account.key.get("/api/workflows/runs", params={"status": status, "limit": 1})
    return answer.json()["total"]


async def _until_idle(account: Account, seconds: float) -> int:
    """Wait until every run of an account has ended; how many are left after so long.

    They are counted in one look: of several, each could miss a run that goes from one status to another.
    """
    deadline = time.monotonic() + seconds
    while True:
        left: int = (await account.key.get("/api/limits")).json()["unfinished_runs"]["used"]
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.5)


async def _several(count: int, do: Callable[[int], Awaitable[Any]], at_once: int = 16) -> None:
    places = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with places:
            await do(number)

    await asyncio.gather(*(one(number) for number in range(count)))


async def _family(account: Account, child_id: str, children: int) -> dict[str, Any]:
    step = {"id": "child", "type": "workflow", "config": {"workflow_id": child_id, "input": "{{ item }}"}}
    return await account.workflow([step | {"for_each": "trigger.items", "max_concurrency": 50}])


def _log_of_postgres(target: Target) -> str:
    return (target.stack.data / "logs" / "postgres.log").read_text(errors="replace")


@case("families", "200 parents with a child, one with 800, 40 with 20, in turns, beside a neighbour")
async def families(target: Target, tally: Tally) -> None:
    """Every run ends, its parent with the right output; no server dies."""
    account = await target.new_account()
    echo = [{"id": "t", "type": "transform", "config": {"expression": "trigger"}}]
    child = await account.workflow(echo)
    shapes = _SHAPES if target.full else _SMALL_SHAPES
    parents = {children: await _family(account, child["id"], children) for _, children in shapes}
    logged = len(_log_of_postgres(target))
    deadline = time.monotonic() + (_FULL_SECONDS if target.full else _BRIEF_SECONDS)
    turns = 0
    async with _neighbour(target, tally):
        while turns == 0 or time.monotonic() < deadline:
            for count, children in shapes:

                async def start(_: int, children: int = children) -> None:
                    path = f"/api/workflows/{parents[children]['id']}/run"
                    answer = await account.key.post(path, json={"input": {"items": list(range(children))}})
                    tally.check(answer.status_code == 202, "a parent is accepted", answer.status_code)

                await _several(count, start)
                left = await _until_idle(account, 120)
                tally.check(not left, "all runs of a turn end", left)
            turns += 1
    runs = sum(count * (1 + children) for count, children in shapes) * turns
    tally.figures["runs"] = f"{runs:,} in {turns} turns"
    totals = {
        status: (await account.key.get("/api/workflows/runs", params={"status": status, "limit": 1})).json()[
            "total"
        ]
        for status in ("completed", "failed", "cancelled")
    }
    tally.check(totals == {"completed": runs, "failed": 0, "cancelled": 0}, "all have completed", totals)
    log = _log_of_postgres(target)[logged:]
    for word in ("terminated by signal", "PANIC", "deadlock detected"):
        tally.check(word not in log, f"Postgres' log has no “{word}”")


@case("full limits", "workflows whose one run waits for a year, with another queued behind each")
async def full_limits(target: Target, tally: Tally) -> None:
    """An account that can be given nothing more costs its neighbour nothing."""
    account = await target.new_account()
    wait = [{"id": "w", "type": "delay", "config": {"days": 365}}]
    count = target.times(2500, 60)

    async def start(_: int) -> None:
        workflow = await account.workflow(wait, concurrency={"limit": 1})
        for _ in range(2):
            answer = await account.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": None})
            tally.check(answer.status_code == 202, "a run is accepted", answer.status_code)

    async with _neighbour(target, tally):
        await _several(count, start)
        await asyncio.sleep(target.times(30, 2))
    for status, expected in (("waiting", count), ("queued", count)):
        seen = await _total(account, status)
        tally.check(seen == expected, f"so many are {status}", seen)


@case("trees", "runs that begin runs that begin runs, five levels down, as many as they can")
async def trees(target: Target, tally: Tally) -> None:
    """Every tree ends by itself; none grows beyond its bound, and the neighbour goes on."""
    account = await target.new_account()
    below = await account.workflow([{"id": "t", "type": "transform", "config": {"expression": "trigger"}}])
    width = 3 if target.full else 2
    for _ in range(4):
        below = await account.workflow(
            [
                {
                    "id": "child", "type": "workflow", "for_each": "trigger",
                    "config": {"workflow_id": below["id"], "input": "{{ $.trigger }}"},
                }
            ]
        )  # fmt: skip
    roots = target.times(100, 2)

    async def start(_: int) -> None:
        answer = await account.key.post(
            f"/api/workflows/{below['id']}/run", json={"input": list(range(width))}
        )
        tally.check(answer.status_code == 202, "a root is accepted", answer.status_code)

    async with _neighbour(target, tally):
        await _several(roots, start)
        left = await _until_idle(account, 900)
    tally.check(not left, "all trees end", left)
    total = (await account.key.get("/api/workflows/runs", params={"limit": 1})).json()["total"]
    expected = roots * sum(width**level for level in range(5))
    tally.figures["runs"] = f"{total:,}"
    tally.check(total == expected, "each run began each of its children once", f"{total}, not {expected}")
