"""The workflow engine, end to end: an event is posted, its run is accepted, done, completed.

    python -m bench.automations [--shape w1 …] [--clients 32 …] [--mode posting] [--rows 1] [--seconds 4]
    python -m bench.automations --all
    python -m bench.automations --variants [--shape w1] [--clients 32] [--rounds 2]

Without arguments it prints a small table in about three minutes. docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
from collections.abc import Iterator
from itertools import groupby, product
from typing import NamedTuple

from bench.lookups import fetch_data
from bench.machine import machine
from bench.measuring import HEADS, Bench, Figures
from bench.shapes import SHAPES
from bench.stack import Runners, Stack, nothing, running
from models.run_work import MAX_ROWS

MODES = ("waiting", "posting")
CLIENTS = (1, 8, 32, 256)
Changes = dict[str, int | bool]
VARIANTS: dict[str, Changes] = {
    "as it is": {},
    "no sandbox": {"sandbox": False},
    "2 starts in flight": {"starts": 2},
    "8 starts in flight": {"starts": 8},
    "4 workflow pollers": {"pollers": 4},
    "autoscaling pollers": {"fixed pollers": False},
    "no eager starts": {"eager": False},
    "1 row a batch": {"rows": 1},
}


class Cell(NamedTuple):
    """One line of a table."""

    rows: int
    shape: str
    clients: int
    mode: str


def compact() -> Iterator[Cell]:
    """What a first look needs."""
    for shape in SHAPES:
        yield Cell(MAX_ROWS, shape, 1, "waiting")
        yield Cell(MAX_ROWS, shape, 32, "waiting")
        yield Cell(MAX_ROWS, shape, 32, "posting")
    for shape in SHAPES:
        yield Cell(1, shape, 32, "posting")


def chosen(arguments: argparse.Namespace) -> list[Cell]:
    """What the command line asks for."""
    given = (arguments.rows, arguments.shape, arguments.clients, arguments.mode)
    if not arguments.all and not any(given):
        return list(compact())
    rows = [arguments.rows] if arguments.rows else [MAX_ROWS, 1] if arguments.all else [MAX_ROWS]
    clients = arguments.clients or (CLIENTS if arguments.all else [32])
    modes = [arguments.mode] if arguments.mode else MODES
    return [Cell(*cell) for cell in product(rows, arguments.shape or SHAPES, clients, modes)]


def measure(bench: Bench, fast: asyncio.Runner, cell: Cell, seconds: float) -> Figures:
    """Measure one line."""
    work = bench.measure(
        cell.shape,
        SHAPES[cell.shape],
        cell.clients,
        seconds,
        waiting=cell.mode == "waiting",
        # Enough to fill batches; few enough that the end does not take long.
        most_unfinished=max(8 * cell.rows, 2 * cell.clients),
    )
    return fast.run(work)


def table(stack: Stack, bench: Bench, runners: Runners, cells: list[Cell], seconds: float) -> None:
    """Measure and print line by line, with one worker after the other."""
    for rows, group in groupby(cells, lambda cell: cell.rows):
        runners.plain.run(stack.change_worker({"rows": rows}))
        print(f"\nat most {rows} row{'s' * (rows > 1)} a batch, {seconds:g} s a line")
        print(_heads("shape    clients"))
        for cell in group:
            figures = measure(bench, runners.fast, cell, seconds)
            print(f"{cell.shape:<8} {cell.clients:>3} {cell.mode}{figures}", flush=True)
        resident = ", ".join(f"{part} {mib}" for part, mib in stack.resident_mib().items())
        print(f"resident MiB: {resident}")


def variants(stack: Stack, bench: Bench, runners: Runners, cell: Cell, seconds: float, rounds: int) -> None:
    """The same load on differently built workers, in turns; then each against the worker as it is."""
    found: dict[str, list[Figures]] = {name: [] for name in VARIANTS}
    print(f"\n{cell.shape}, {cell.clients} clients {cell.mode}, {seconds:g} s a line")
    print(_heads(""))
    for turn in range(rounds):
        # There and back, so that a machine that slows down favours nobody.
        for name in list(VARIANTS)[:: -1 if turn % 2 else 1]:
            runners.plain.run(stack.change_worker(VARIANTS[name]))
            rows = int(VARIANTS[name].get("rows", cell.rows))
            found[name].append(measure(bench, runners.fast, cell._replace(rows=rows), seconds))
            print(f"{name:<20}{found[name][-1]}", flush=True)
    print("\nagainst the worker as it is, mean of the rounds: runs a second, p50, CPU for a run")
    base = _means(found["as it is"])
    for name, figures in found.items():
        shares = [mine / theirs for mine, theirs in zip(_means(figures), base, strict=True)]
        print(f"{name:<20}" + "".join(f"{share:8.2f}" for share in shares))


def _means(figures: list[Figures]) -> list[float]:
    """Rate, p50 and CPU without the load generator's."""
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
        cells = [Cell(arguments.rows or MAX_ROWS, shape, clients, arguments.mode or "posting")]
    else:
        cells = chosen(arguments)
    shapes = dict.fromkeys(cell.shape for cell in cells)
    print(machine(), flush=True)
    with contextlib.ExitStack() as exits:
        runners = exits.enter_context(Runners.made())
        prepare = fetch_data if {"lookups", "mixed"} & set(shapes) else nothing
        stack = exits.enter_context(
            running(runners, prepare, VEDETTE_LIMIT_INGEST="off", VEDETTE_LOCAL_ONLY="1")
        )
        runners.plain.run(stack.change_worker({}))
        bench = runners.fast.run(Bench(stack).open())
        exits.callback(lambda: runners.fast.run(bench.close()))
        for name in shapes:
            runners.fast.run(bench.create(name, SHAPES[name]))
        if arguments.variants:
            variants(stack, bench, runners, cells[0], arguments.seconds, arguments.rounds)
        else:
            table(stack, bench, runners, cells, arguments.seconds)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES))
    parser.add_argument("--clients", nargs="+", type=int)
    parser.add_argument("--mode", choices=MODES, help="wait for each run, or only until it is accepted")
    parser.add_argument("--rows", type=int, help="the most rows of a batch; 1: each run is one of its own")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--all", action="store_true", help="all shapes, clients and modes, batched and not")
    parser.add_argument("--variants", action="store_true", help="compare differently built workers")
    parser.add_argument("--rounds", type=int, default=2, help="of the variants")
    return parser.parse_args()


if __name__ == "__main__":
    main(_parsed())
