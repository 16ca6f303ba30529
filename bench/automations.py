"""The workflow engine, end to end: an event is posted, its run is accepted, done, completed.

    python -m bench.automations [--shape w1 …] [--clients 32 …] [--mode posting] [--rows 1] [--seconds 4]
    python -m bench.automations --all
    python -m bench.automations --variants [--shape w1] [--clients 32] [--rounds 2]
    python -m bench.automations --workflows 1 200 2000 --accounts 1 20 50 [--workers 1 2 4] [--cold]
    python -m bench.automations --offered 5 10 20 40 100 --execution auto shift --seconds 30

Without arguments it prints a small table in about three minutes. Of many workflows, events go to one after
the other. Offered, events come at an even pace, whether or not those before are answered; else each client
sends when it has its answer. Every line has the runs a second, p50 and p99 from accepting to completing a run
and of the answers, and the CPU seconds for 1,000 runs by process. docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Iterator
from itertools import groupby, product
from typing import NamedTuple

from bench.lookups import fetch_data
from bench.machine import machine
from bench.measuring import HEADS, Bench, Figures, Load, Workflows
from bench.shapes import SHAPES
from bench.stack import Runners, Stack, nothing, unlimited
from models.runs.claim_requests import MAX_ROWS

MODES = ("waiting", "posting")
EXECUTIONS = ("auto", "workflow", "shift")
CLIENTS = (1, 8, 32, 256)
Changes = dict[str, int | bool]
VARIANTS: dict[str, Changes] = {
    "as it is": {},
    "no sandbox": {"sandbox": False},
    "4 workflow pollers": {"pollers": 4},
    "autoscaling pollers": {"fixed pollers": False},
    "1 run a claim": {"rows": 1},
}


class Scale(NamedTuple):
    """The common parameters of the lines of a table."""

    rows: int = MAX_ROWS
    workers: int = 1
    workflows: int = 1
    accounts: int = 1
    execution: str = "auto"

    def __str__(self) -> str:
        counts = [(name, getattr(self, name)) for name in ("workflows", "accounts", "workers")]
        words = ", ".join(f"{count} {name if count > 1 else name[:-1]}" for name, count in counts)
        return f"{words}, execution {self.execution}, at most {self.rows} run{'s' * (self.rows > 1)} a claim"


class Cell(NamedTuple):
    """One line of a table. `offered` is in events a second; then there are no clients."""

    scale: Scale
    shape: str
    clients: int
    mode: str
    offered: float = 0

    @property
    def set(self) -> tuple[str, int, int, str]:
        """The key of the workflows that receive its events."""
        return self.shape, self.scale.workflows, self.scale.accounts, self.scale.execution

    def __str__(self) -> str:
        pace = f"{self.offered:g}/s" if self.offered else f"{self.clients}"
        return f"{self.shape:<7}{pace:>5} {self.mode}"


class Rig(NamedTuple):
    """The tools of a measurement; `sets` is keyed by `Cell.set`."""

    stack: Stack
    bench: Bench
    runners: Runners
    sets: dict[tuple[str, int, int, str], Workflows]

    def change_workers(self, changes: Changes, count: int = 1) -> None:
        """Replace the workers by this many with these changes."""
        self.runners.plain.run(self.stack.change_worker(changes, count))

    def warm_up(self, cell: Cell) -> None:
        """Run each workflow of a line once."""
        self.runners.fast.run(self.bench.run_each_once(self.workflows(cell)))

    def workflows(self, cell: Cell) -> Workflows:
        """Return the workflows of a line."""
        return self.sets[cell.set]

    def measure(self, cell: Cell, seconds: float, *, cold: bool = False) -> Figures:
        """Measure one line."""
        # Enough to fill claims; few enough that the end does not take long.
        most_unfinished = max(8 * cell.scale.rows, 2 * cell.clients)
        load = Load(cell.clients, cell.offered, cell.mode == "waiting", most_unfinished)
        return self.runners.fast.run(self.bench.measure(self.workflows(cell), load, seconds, cold=cold))


def compact() -> Iterator[Cell]:
    """Yield the lines of a first overview."""
    for shape in SHAPES:
        yield Cell(Scale(), shape, 1, "waiting")
        yield Cell(Scale(), shape, 32, "waiting")
        yield Cell(Scale(), shape, 32, "posting")
    for shape in SHAPES:
        yield Cell(Scale(rows=1), shape, 32, "posting")


def chosen(arguments: argparse.Namespace) -> list[Cell]:
    """Return the lines that the command line requests."""
    workers: list[int] = arguments.workers
    sizes: list[tuple[int, int]] = [
        (number, min(number, accounts))
        for number, accounts in zip(arguments.workflows, arguments.accounts, strict=True)
    ]
    executions: list[str] = arguments.execution
    scaled = sizes != [(1, 1)] or workers != [1] or executions != ["auto"]
    given = (arguments.rows, arguments.shape, arguments.clients, arguments.mode, arguments.offered, scaled)
    if not arguments.all and not any(given):
        return list(compact())
    rows = [arguments.rows] if arguments.rows else [MAX_ROWS, 1] if arguments.all else [MAX_ROWS]
    shapes = arguments.shape or (["w1"] if scaled or arguments.offered else SHAPES)
    loads: list[tuple[int, str, float]] = []
    if arguments.clients or not arguments.offered:
        clients = arguments.clients or (CLIENTS if arguments.all else [32])
        modes = [arguments.mode] if arguments.mode else MODES
        loads += [(number, mode, 0) for number, mode in product(clients, modes)]
    loads += [(0, arguments.mode or "posting", rate) for rate in arguments.offered]
    scales = [
        Scale(most, count, *size, execution)
        for most, count, size, execution in product(rows, workers, sizes, executions)
    ]
    return [Cell(scale, shape, *load) for scale, shape, load in product(scales, shapes, loads)]


def table(rig: Rig, cells: list[Cell], seconds: float, cold: bool) -> None:
    """Measure and print line by line; each scale has workers of its own, each line if it is cold."""
    for scale, group in groupby(cells, lambda cell: cell.scale):
        print(f"\n{scale}, {seconds:g} s a line{', cold' * cold}")
        print(_heads("shape  clients"))
        warm: set[str] = set()
        for cell in group:
            if cold or not warm:
                rig.change_workers({"rows": scale.rows}, scale.workers)
            if not cold and cell.shape not in warm:
                rig.warm_up(cell)
            warm.add(cell.shape)
            print(f"{cell!s:<20}{rig.measure(cell, seconds, cold=cold)}", flush=True)
        resident = ", ".join(f"{part} {mib}" for part, mib in rig.stack.resident_mib().items())
        print(f"resident MiB: {resident}")


def variants(rig: Rig, cell: Cell, seconds: float, rounds: int) -> None:
    """Compare the same load on different workers, in turns; then each with the normal worker."""
    found: dict[str, list[Figures]] = {name: [] for name in VARIANTS}
    print(f"\n{cell}, {seconds:g} s a line")
    print(_heads(""))
    for turn in range(rounds):
        # There and back, so that a machine that slows down favours no variant.
        for name in list(VARIANTS)[:: -1 if turn % 2 else 1]:
            rig.change_workers(VARIANTS[name])
            rows = int(VARIANTS[name].get("rows", cell.scale.rows))
            line = cell._replace(scale=cell.scale._replace(rows=rows))
            found[name].append(rig.measure(line, seconds))
            print(f"{name:<20}{found[name][-1]}", flush=True)
    print("\nagainst the worker as it is, mean of the rounds: runs a second, p50, CPU for a run")
    base = _means(found["as it is"])
    for name, figures in found.items():
        shares = [mine / theirs for mine, theirs in zip(_means(figures), base, strict=True)]
        print(f"{name:<20}" + "".join(f"{share:8.2f}" for share in shares))


def _means(figures: list[Figures]) -> list[float]:
    """Return the means of rate, p50 and CPU without the load generator's."""
    return [
        statistics.mean(one.rate for one in figures),
        statistics.mean(one.run_ms[0] for one in figures),
        statistics.mean(sum(one.cpu.values()) - one.cpu["load"] for one in figures),
    ]


def _heads(first: str) -> str:
    return " " * 20 + HEADS[0] + f"{first:<20}" + HEADS[1]


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    if arguments.variants:
        shape, clients = (arguments.shape or ["w1"])[0], (arguments.clients or [32])[0]
        cells = [Cell(Scale(arguments.rows or MAX_ROWS), shape, clients, arguments.mode or "posting")]
    else:
        cells = chosen(arguments)
    wanted = dict.fromkeys(cell.set for cell in cells)
    prepare = fetch_data if {"lookups", "mixed"} & {shape for shape, *_ in wanted} else nothing
    print(machine(), flush=True)
    with contextlib.ExitStack() as exits:
        runners, stack = exits.enter_context(unlimited(prepare))
        runners.plain.run(stack.change_worker({}))
        bench = runners.fast.run(Bench(stack).open())
        exits.callback(lambda: runners.fast.run(bench.close()))
        sets = {key: runners.fast.run(bench.create(SHAPES[key[0]], *key[1:])) for key in wanted}
        rig = Rig(stack, bench, runners, sets)
        if arguments.variants:
            variants(rig, cells[0], arguments.seconds, arguments.rounds)
        else:
            table(rig, cells, arguments.seconds, arguments.cold)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES))
    parser.add_argument("--clients", nargs="+", type=int, help="each with a request in flight")
    parser.add_argument(
        "--offered", nargs="+", type=float, default=[], help="events a second, at an even pace"
    )
    parser.add_argument("--workflows", nargs="+", type=int, default=[1], help="as many of a shape")
    parser.add_argument(
        "--accounts", nargs="+", type=int, default=[1], help="whose: at most so many, or one number each"
    )
    parser.add_argument("--workers", nargs="+", type=int, default=[1], help="processes")
    parser.add_argument(
        "--execution", nargs="+", choices=EXECUTIONS, default=["auto"], help="who takes runs forward"
    )
    parser.add_argument("--cold", action="store_true", help="new workers a line, and no warm-up")
    parser.add_argument("--mode", choices=MODES, help="wait for each run, or only until it is accepted")
    parser.add_argument("--rows", type=int, help="the most runs of a claim")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument(
        "--all", action="store_true", help="all shapes, clients and modes, claimed together and not"
    )
    parser.add_argument("--variants", action="store_true", help="compare differently built workers")
    parser.add_argument("--rounds", type=int, default=2, help="of the variants")
    arguments = parser.parse_args()
    if len(arguments.accounts) == 1:
        arguments.accounts *= len(arguments.workflows)
    if len(arguments.accounts) != len(arguments.workflows):
        parser.error("give --accounts once, or once for each of --workflows")
    return arguments


if __name__ == "__main__":
    main(_parse_arguments())
