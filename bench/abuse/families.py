"""Accounts that begin many runs at once, with a neighbour beside them: families, full limits, trees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from statistics import median

from bench.abuse.cases import Tally, case, milliseconds
from bench.abuse.target import Target
from bench.families import (
    SHAPES,
    SMALL_SHAPES,
    Families,
    count_runs,
    do_several,
    find_faults,
    wait_until_idle,
)

_FULL_SECONDS, _BRIEF_SECONDS = 600, 5
_NEIGHBOUR_PAUSE = 0.25


@asynccontextmanager
async def _neighbour(target: Target, tally: Tally) -> AsyncGenerator[None]:
    """Run a neighbour's workflow repeatedly beside the block; it may become at most four times as slow."""
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


def log_of_postgres(target: Target) -> str:
    """Return the log of Postgres so far."""
    return (target.stack.data / "logs" / "postgres.log").read_text(errors="replace")


@case("families", "200 parents with a child, one with 800, 40 with 20, in turns, beside a neighbour")
async def families(target: Target, tally: Tally) -> None:
    """Check that every run ends, its parent has the right output, and no server dies."""
    client = (await target.new_account()).key
    shapes = SHAPES if target.full else SMALL_SHAPES
    begun = await Families(client).create(shapes)
    logged = len(log_of_postgres(target))
    deadline = time.monotonic() + (_FULL_SECONDS if target.full else _BRIEF_SECONDS)
    turns = 0
    async with _neighbour(target, tally):
        while turns == 0 or time.monotonic() < deadline:
            for count, children in shapes:
                statuses = await begun.start(count, children)
                tally.check(set(statuses) == {202}, "parents are accepted", dict(statuses))
                left = await wait_until_idle(client, 120)
                tally.check(not left, "all runs of a turn end", left)
            turns += 1
    runs = sum(count * (1 + children) for count, children in shapes) * turns
    tally.figures["runs"] = f"{runs:,} in {turns} turns"
    statuses = ("completed", "failed", "cancelled")
    totals = {status: await count_runs(client, status) for status in statuses}
    tally.check(totals == {"completed": runs, "failed": 0, "cancelled": 0}, "all have completed", totals)
    faults = find_faults(log_of_postgres(target)[logged:])
    for name in ("crashes", "deadlocks"):
        tally.check(not faults[name], f"Postgres' log tells of no {name}", faults[name][:1])


@case("full limits", "workflows whose one run waits for a year, with another queued behind each")
async def full_limits(target: Target, tally: Tally) -> None:
    """Check that an account at its limits costs its neighbour nothing."""
    account = await target.new_account()
    wait = [{"id": "w", "type": "delay", "config": {"days": 365}}]
    count = target.times(2500, 60)

    async def start(_: int) -> None:
        workflow = await account.workflow(wait, concurrency={"limit": 1})
        for _ in range(2):
            answer = await account.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": None})
            tally.check(answer.status_code == 202, "a run is accepted", answer.status_code)

    async with _neighbour(target, tally):
        await do_several(count, start)
        await asyncio.sleep(target.times(30, 2))
    for status, expected in (("waiting", count), ("queued", count)):
        seen = await count_runs(account.key, status)
        tally.check(seen == expected, f"so many are {status}", seen)


@case("trees", "runs that begin runs that begin runs, five levels down, as many as they can")
async def trees(target: Target, tally: Tally) -> None:
    """Check that every tree ends by itself within its limit, and the neighbour continues."""
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
        await do_several(roots, start)
        left = await wait_until_idle(account.key, 900)
    tally.check(not left, "all trees end", left)
    total = await count_runs(account.key)
    expected = roots * sum(width**level for level in range(5))
    tally.figures["runs"] = f"{total:,}"
    tally.check(total == expected, "each run began each of its children once", f"{total}, not {expected}")
