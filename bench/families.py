"""Runs that run workflows: their rate and cost, and whether Postgres survives.

    python -m bench.families [--seconds 60] [--small]

In turns: 200 parents with a child each, one with 800, 40 with 20, all of one account; each shape begins when
the one before has ended. Every run must complete. Then Postgres' log is looked at: the exit code is 1 if it
tells of a crash or a deadlock; errors are printed. docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Self

import httpx

from bench.machine import machine
from bench.measuring import PARTS
from bench.stack import Stack, unlimited

Shapes = tuple[tuple[int, int], ...]
SHAPES: Shapes = ((200, 1), (1, 800), (40, 20))
SMALL_SHAPES: Shapes = ((20, 1), (1, 60), (4, 10))
"""The number of parents, and of children of each."""
_TURN_SECONDS = 120
_LOOK_SECONDS = 0.1
_FAULTS = {
    "crashes": re.compile(r"terminated by signal|PANIC:"),
    "deadlocks": re.compile(r"deadlock detected"),
    "errors": re.compile(r"(ERROR|FATAL):"),
}
_MOST_SHOWN = 6


class Families:
    """Workflows of one account whose runs run another workflow."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        """Prepare; `client` has the account's key."""
        self._client = client
        self._parents: dict[int, str] = {}

    async def create(self, shapes: Shapes) -> Self:
        """Create the workflows, one for each number of children."""
        child = await self._workflow({"id": "t", "type": "transform", "config": {"expression": "trigger"}})
        config = {"workflow_id": child, "input": "{{ item }}"}
        step = {"id": "child", "type": "workflow", "config": config, "for_each": "trigger.items"}
        for _, children in shapes:
            self._parents[children] = await self._workflow(step | {"max_concurrency": 50})
        return self

    async def start(self, parents: int, children: int) -> Counter[int]:
        """Start parents with this many children; return the statuses of the answers with their counts."""
        statuses, path = Counter[int](), f"/api/workflows/{self._parents[children]}/run"

        async def start(_: int) -> None:
            answer = await self._client.post(path, json={"input": {"items": list(range(children))}})
            statuses[answer.status_code] += 1

        await do_several(parents, start)
        return statuses

    async def _workflow(self, step: dict[str, Any]) -> str:
        document = {"name": "family", "trigger": {"type": "webhook"}, "steps": [step]}
        answer = await self._client.post("/api/workflows", json=document)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


async def do_several(count: int, do: Callable[[int], Awaitable[Any]], at_once: int = 16) -> None:
    """Do a task repeatedly, several at once."""
    places = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with places:
            await do(number)

    await asyncio.gather(*(one(number) for number in range(count)))


async def count_runs(client: httpx.AsyncClient, status: str = "") -> int:
    """Count the account's runs, or those of a status."""
    params = {"limit": "1"} | ({"status": status} if status else {})
    return (await client.get("/api/workflows/runs", params=params)).json()["total"]


async def wait_until_idle(client: httpx.AsyncClient, seconds: float, pause: float = 0.5) -> int:
    """Wait until every run of the account has ended; return how many are left at the deadline.

    They are counted in a single query, because several queries could miss a run that changes its status.
    """
    deadline = time.monotonic() + seconds
    while True:
        left: int = (await client.get("/api/limits")).json()["unfinished_runs"]["used"]
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(pause)


def find_faults(log: str) -> dict[str, list[str]]:
    """Return the lines of Postgres' log about crashes, deadlocks, and other errors."""
    found: dict[str, list[str]] = {name: [] for name in _FAULTS}
    for line in log.splitlines():
        name = next((name for name, words in _FAULTS.items() if words.search(line)), None)
        if name is not None:
            found[name].append(line)
    return found


async def turn(
    stack: Stack, client: httpx.AsyncClient, families: Families, parents: int, children: int
) -> list[float]:
    """Run one shape to its end; return the runs, the seconds, and the CPU seconds by part."""
    used, started = stack.cpu_seconds(), time.perf_counter()
    statuses = await families.start(parents, children)
    assert set(statuses) == {202}, statuses
    left = await wait_until_idle(client, _TURN_SECONDS, _LOOK_SECONDS)
    assert not left, f"{left} runs do not end"
    took, now = time.perf_counter() - started, stack.cpu_seconds()
    return [parents * (1 + children), took, *(now[part] - used[part] for part in PARTS)]


def lines(found: dict[tuple[int, int], list[list[float]]]) -> Iterator[str]:
    """Yield a line for each shape, and one for all."""
    yield "parents × children  turns    runs   each s   CPU seconds for 1,000 runs"
    yield " " * 44 + "".join(f"{part:>9}" for part in PARTS)
    every = [figures for turns in found.values() for figures in turns]
    named = [(f"{parents} × {children}", turns) for (parents, children), turns in found.items()]
    for name, turns in [*named, ("all", every)]:
        runs, seconds, *cpu = map(sum, zip(*turns, strict=True))
        figures = "".join(f"{one / runs * 1000:9.2f}" for one in cpu)
        yield f"{name:>18}{len(turns):7}{runs:8,.0f}{runs / seconds:9.0f}{figures}"


def report(log: str) -> int:
    """Print the faults in Postgres' log; return the number of crashes and deadlocks."""
    faults = find_faults(log)
    counts = ", ".join(f"{name} {len(found)}" for name, found in faults.items())
    print(f"Postgres' log: {counts}")
    several = Counter(line.split(": ", 1)[-1] for found in faults.values() for line in found)
    for line, count in several.most_common(_MOST_SHOWN):
        print(f"  {count} × {line}")
    return len(faults["crashes"]) + len(faults["deadlocks"])


async def measure(stack: Stack, shapes: Shapes, seconds: float) -> int:
    """Print the figures of turns for this many seconds, and Postgres' faults; return their number."""
    await stack.change_worker({})
    found: dict[tuple[int, int], list[list[float]]] = {shape: [] for shape in shapes}
    headers = {"Authorization": f"Bearer {stack.key}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, trust_env=False, timeout=60) as client:
        families = await Families(client).create(shapes)
        logged, deadline, turns = len(stack.postgres_log()), time.monotonic() + seconds, 0
        try:
            while turns == 0 or time.monotonic() < deadline:
                for shape in shapes:
                    found[shape].append(await turn(stack, client, families, *shape))
                turns += 1
            started = sum(figures[0] for shape in found.values() for figures in shape)
            assert (completed := await count_runs(client, "completed")) == started, f"{completed} completed"
        finally:
            if all(found.values()):
                print("", *lines(found), sep="\n", flush=True)
            faults = report(stack.postgres_log()[logged:])
    return faults


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    shapes = SMALL_SHAPES if arguments.small else SHAPES
    with unlimited() as (runners, stack):
        faults = runners.plain.run(measure(stack, shapes, arguments.seconds))
    if faults:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--small", action="store_true", help="a tenth as many runs a turn")
    main(parser.parse_args())
