"""The workflow engine beside Restate: the same shapes, load and machine, in turns.

    python -m bench.peer [--shape w1 …] [--clients 32 …] [--mode posting …] [--workflows 1 200]
                         [--seconds 2.5] [--rounds 2]

Many workflows are of 20 accounts, and services on Restate's side; events go to one after the other. Without
arguments it prints a table in some five minutes; docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice, product
from typing import Any, NamedTuple

import httpx
import psycopg

from bench import load, restate
from bench.machine import machine
from bench.measuring import Bench
from bench.shapes import SHAPES, Shape, transform, webhook
from bench.stack import Runners, Stack, unlimited

CLIENTS = (1, 8, 32, 128, 256)
MODES = ("waiting", "posting")
HEADS = "     runs/s     p50 ms     p99 ms CPU s/1,000    RSS MiB"
_ITEMS = 1000
_CALLS_LEFT = 2048
_DRAIN_SECONDS = 300
_LOOK_SECONDS = 0.05
_WARM_UP_SECONDS, _LONGEST_WARM_UP_SECONDS = 0.7, 60
_ACCOUNTS = 20


class Cell(NamedTuple):
    """One comparison."""

    shape: str
    clients: int
    mode: str
    workflows: int = 1


COMPACT = (
    *(Cell("w1", clients, "waiting") for clients in (1, 32, 256)),
    *(Cell("w1", clients, "posting") for clients in (32, 256)),
    *(Cell("w1", 32, mode, workflows=200) for mode in MODES),
    Cell("five", 32, "posting"),
    Cell("fifty", 8, "waiting"),
    Cell("each", 1, "waiting"),
)


def _row(calls: int) -> Shape:
    """Return a shape of calls one after the other, and a transform of the last answer."""

    def steps(url: str) -> list[dict[str, Any]]:
        body = {"id": "{{ trigger.id }}"}
        last = transform("shape", {"id": "trigger.id", "ok": f"call{calls - 1}.body.ok"})
        return [*(webhook(f"call{number}", url, body) for number in range(calls)), last]

    return Shape(steps, SHAPES["w1"].event, lambda number: {"id": number, "ok": True})


def _each(url: str) -> list[dict[str, Any]]:
    call = webhook("each", url, {"line": "{{ item }}"}, for_each="trigger.lines")
    return [call, transform("shape", {"id": "trigger.id", "lines": "length(each)"})]


EACH = Shape(
    _each,
    lambda number: {"id": number, "lines": list(range(_ITEMS))},
    lambda number: {"id": number, "lines": _ITEMS},
)
COMPARED = {"w1": (SHAPES["w1"], 1), "five": (_row(5), 5), "fifty": (_row(49), 49), "each": (EACH, _ITEMS)}
"""Each shape, and the number of calls in its run. restate_service.mjs has the same ones."""


@dataclass
class Side:
    """One of the two compared systems.

    Attributes:
        completed: returns the number of completed runs since the start.
        cpu_seconds: returns the CPU seconds of all its processes since the start.
        resident_mib: returns the memory of all its processes; shared pages count more than once.
        output: the output of a run, from the answer to a waiting client.
        paths: the paths for events of each workflow, by shape and mode.
        sent: the number of events since the start.
        seen: the number of completed runs at the last check.
    """

    name: str
    port: int
    completed: Callable[[], Awaitable[int]]
    cpu_seconds: Callable[[], float]
    resident_mib: Callable[[], float]
    output: Callable[[Any], Any]
    paths: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    sent: int = 0
    seen: int = 0

    async def check(self, name: str) -> None:
        """Run each workflow of a shape once, and check the outputs."""
        count = len(self.paths[name, "posting"])
        await self._send(Cell(name, 8, "posting", count), _LONGEST_WARM_UP_SECONDS, count)
        shape, url = COMPARED[name][0], f"http://127.0.0.1:{self.port}{self.paths[name, 'waiting'][-1]}"
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            for number in (0, 1):
                self.sent += 1
                answer = await client.post(url, json=shape.event(number))
                assert self.output(answer.json()) == shape.output(number), (self.name, name, answer.text)

    async def measure(self, cell: Cell, seconds: float) -> tuple[float, ...]:
        """Send events for this many seconds, until all runs have completed; return figures as in `HEADS`."""
        await self._send(cell, min(seconds, _WARM_UP_SECONDS))
        used, start = self.cpu_seconds(), time.perf_counter()
        result = await self._send(cell, seconds)
        took, count = time.perf_counter() - start, len(result.latencies)
        cpu = (self.cpu_seconds() - used) / count * 1000
        assert set(result.statuses) == {200 if cell.mode == "waiting" else 202}, (self.name, result.statuses)
        return count / took, result.percentile(0.5), result.percentile(0.99), cpu, self.resident_mib()

    async def _send(self, cell: Cell, seconds: float, count: int | None = None) -> load.Result:
        """Send at most `count`; when posting, pause while too many runs are left, and return when none is."""
        posting, gate = cell.mode == "posting", asyncio.Event()
        most = max(2 * cell.clients, _CALLS_LEFT // COMPARED[cell.shape][1]) if posting else math.inf
        gate.set()
        requests = islice(self._requests(cell, gate, most), count)
        work = load.run(load.Address(self.port), requests, clients=cell.clients, seconds=seconds, gate=gate)
        if not posting:
            return await work
        sending, deadline = asyncio.create_task(work), time.perf_counter() + seconds + _DRAIN_SECONDS
        while (left := await self._left()) or not sending.done():
            assert time.perf_counter() < deadline, f"{self.name}: {left} runs do not complete"
            if left < most:
                gate.set()
            await asyncio.sleep(_LOOK_SECONDS)
        return await sending

    async def _left(self) -> int:
        self.seen = await self.completed()
        return self.sent - self.seen

    def _requests(self, cell: Cell, gate: asyncio.Event, most: float) -> Iterator[bytes]:
        paths = cycle(self.paths[cell.shape, cell.mode][: cell.workflows])
        for path, body in zip(paths, COMPARED[cell.shape][0].bodies(), strict=False):
            self.sent += 1
            if self.sent - self.seen >= most:  # until the next check: clients can send a lot meanwhile
                gate.clear()
            yield load.request_bytes("POST", path, {}, body)


async def our_side(stack: Stack, shapes: dict[str, int]) -> Side:
    """Return our side: a stack with a running worker, and this many workflows of each shape."""
    url = stack.settings.database_url
    assert url is not None
    database = await psycopg.AsyncConnection[tuple[int]].connect(url.get_secret_value(), autocommit=True)

    async def completed() -> int:
        query = "select coalesce(sum(runs), 0)::int from run_counts where status = 'completed'"
        [(count,)] = await (await database.execute(query)).fetchall()
        return count

    def of_ours(by_part: Mapping[str, float]) -> float:
        return sum(by_part.values()) - by_part["load"]

    cpu, resident = lambda: of_ours(stack.cpu_seconds()), lambda: of_ours(stack.resident_mib())
    side = Side("vedette", stack.port, completed, cpu, resident, lambda answer: answer.get("output"))
    bench = Bench(stack)
    for name, count in shapes.items():
        paths = (await bench.create(COMPARED[name][0], count, min(count, _ACCOUNTS))).paths
        side.paths |= {(name, "waiting"): [f"{path}?wait=30" for path in paths], (name, "posting"): paths}
    side.sent = await completed()
    return side


async def their_side(peer: restate.Restate, shapes: dict[str, int]) -> Side:
    """Return Restate's side, whose services have a handler for each shape."""
    completed = await peer.counter()
    side = Side("restate", peer.port, completed, peer.cpu_seconds, peer.resident_mib, lambda answer: answer)
    for name, count in shapes.items():
        paths = [f"/bench{number}/{name}" for number in range(count)]
        side.paths |= {(name, "waiting"): paths, (name, "posting"): [f"{path}/send" for path in paths]}
    return side


def compare(runners: Runners, sides: list[Side], cells: list[Cell], seconds: float, rounds: int) -> None:
    """Measure in turns and print: for each cell a line a side, the means of the rounds, and their ratio."""
    print(f"\n{rounds} rounds of {seconds:g} s\n{'shape workflows clients mode    side':<39}{HEADS}")
    for cell in cells:
        found: dict[str, list[tuple[float, ...]]] = {side.name: [] for side in sides}
        for turn in range(rounds):
            # There and back, so that a machine that slows down favours no side.
            for side in sides[:: -1 if turn % 2 else 1]:
                found[side.name].append(runners.fast.run(side.measure(cell, seconds)))
        means = [
            [statistics.mean(values) for values in zip(*found[side.name], strict=True)] for side in sides
        ]
        ratio = [ours / theirs for ours, theirs in zip(*means, strict=True)]
        for name, values in zip((*found, "ratio"), (*means, ratio), strict=True):
            figures = "".join(f"{value:11.2f}" for value in values)
            asked = f"{cell.shape:<5} {cell.workflows:>9} {cell.clients:>7} {cell.mode}"
            print(f"{asked} {name:<8}{figures}", flush=True)


def chosen(arguments: argparse.Namespace) -> list[Cell]:
    """Return the requested cells; by default, no more concurrent calls than a waiting client allows."""
    if not (arguments.shape or arguments.clients or arguments.mode or arguments.workflows):
        return list(COMPACT)
    return [
        Cell(shape, clients, mode, workflows)
        for shape, workflows, mode in product(
            arguments.shape or COMPARED, arguments.workflows or [1], arguments.mode or MODES
        )
        for clients in arguments.clients or [n for n in CLIENTS if n * COMPARED[shape][1] <= 13 * _ITEMS]
    ]


def main(arguments: argparse.Namespace) -> None:
    """Start both, measure, print."""
    cells = chosen(arguments)
    shapes = {
        name: max(cell.workflows for cell in cells if cell.shape == name)
        for name in dict.fromkeys(cell.shape for cell in cells)
    }
    print(machine(), flush=True)
    with contextlib.ExitStack() as exits:
        runners, stack = exits.enter_context(unlimited())
        runners.plain.run(stack.change_worker({}))
        peer = exits.enter_context(restate.running(runners, stack.echo, max(shapes.values())))
        sides = [runners.fast.run(side) for side in (our_side(stack, shapes), their_side(peer, shapes))]
        for side, name in product(sides, shapes):
            runners.fast.run(side.check(name))
        for side in sides:  # so that the first line does not include compilation
            runners.fast.run(side.measure(cells[0], arguments.seconds))
        compare(runners, sides, cells, arguments.seconds, arguments.rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=list(COMPARED))
    parser.add_argument("--clients", nargs="+", type=int)
    parser.add_argument("--mode", nargs="+", choices=MODES, help="wait for each run, or until it is accepted")
    parser.add_argument("--workflows", nargs="+", type=int, help="of each shape, on both sides")
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--rounds", type=int, default=2)
    main(parser.parse_args())
