"""The cost of a run as one thing grows: processes, workflows, accounts, stored runs; and what bends.

    python -m bench.scale [--apis 1 2 4] [--workers 1 2 4] [--workflows 1 200] [--accounts 1 20]
                          [--stored 1000 100000] [--execution auto shift workflow] [--seconds 4]

The first value of each is that of the base point; each line changes one of them. An account has one workflow
at least, so a line with more accounts than workflows has as many workflows. The base point is measured again
before runs are stored.

Every line has the runs a second, p50 and p99 from accepting to completing a run, CPU seconds for 1,000 runs
by process, the write-ahead log of a run, the share of runs with workflows of their own and the history of
1,000 runs in Temporal. At the end comes what is worse than at the base point by more than a quarter, and by
more than the two base points differ. docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.machine import machine
from bench.measuring import Bench, Figures, Load, Workflows
from bench.shapes import SHAPES
from bench.stack import Runners, Stack, unlimited

_BENT = 1.25
_PARTS = ("api", "worker", "temporal", "postgres")
_HEAD = (
    f"{'':20}    runs  accepted→completed, ms  {'CPU s for 1,000 runs':36}  log a run  their  Temporal, KiB\n"
    f"{'':20}  each s         p50        p99  {''.join(f'{part:>9}' for part in _PARTS)}        KiB    own"
    "  of 1,000 runs   stored"
)


class Point(NamedTuple):
    """The setting of one line of figures; `stored`: at least so many finished runs."""

    apis: int = 1
    workers: int = 1
    workflows: int = 1
    accounts: int = 1
    execution: str = "auto"
    stored: int = 1000


class Line(NamedTuple):
    """A point under its name in the table."""

    name: str
    point: Point


class Rig:
    """A stack that goes from point to point."""

    def __init__(self, runners: Runners, stack: Stack, bench: Bench, clients: int) -> None:
        self._runners, self._stack, self._bench, self._clients = runners, stack, bench, clients
        self._processes = (0, 0)
        self._sets: dict[tuple[int, int, str], Workflows] = {}

    def measure(self, point: Point, seconds: float) -> tuple[Figures, int]:
        """Go to a point and measure it; return its figures, and how many runs were stored before."""
        plain, fast = self._runners
        if self._processes != point[:2]:
            plain.run(self._stack.change_apis(point.apis))
            plain.run(self._stack.change_worker({}, point.workers))
            fast.run(self._bench.until_apis_serve())
            self._processes = point[:2]
        key = (point.workflows, point.accounts, point.execution)
        if key not in self._sets:
            self._sets[key] = fast.run(self._bench.create(SHAPES["w1"], *key))
        fast.run(self._bench.run_each_once(self._sets[key]))
        stored = fast.run(self._bench.store_runs(point.stored))
        load = Load(self._clients, 0, waiting=False, most_unfinished=2048)
        return fast.run(self._bench.measure(self._sets[key], load, seconds)), stored


def lines(values: dict[str, list[int] | list[str]]) -> Iterator[Line]:
    """Yield the base point, then each other value of each dimension; stored runs come last, for they stay."""
    base = Point(**{name: given[0] for name, given in values.items()})  # pyright: ignore[reportArgumentType]
    base = base._replace(workflows=max(base.workflows, base.accounts))
    yield Line("base", base)
    for name in Point._fields[:-1]:
        for value in values[name][1:]:
            point = base._replace(**{name: value})
            yield Line(f"{name} {value}", point._replace(workflows=max(point.workflows, point.accounts)))
    yield Line("base again", base)
    for value in sorted(values["stored"][1:]):
        yield Line(f"stored {value}", base._replace(stored=int(value)))


def show(figures: Figures, stored: int) -> str:
    """Return the figures of a line."""
    p50, _, p99 = figures.run_ms
    cpu = "".join(f"{figures.cpu[part]:9.2f}" for part in _PARTS)
    wal, history = figures.wal / 1024, figures.history * 1000 / 1024
    return (
        f"{figures.rate:8.0f} {p50:11.1f} {p99:10.1f}  {cpu} {wal:10.2f} {figures.own:6.0%} {history:14.0f}"
        f" {stored:8}"
    )


COSTS: dict[str, Callable[[Figures], float]] = {
    "seconds a run": lambda figures: 1 / figures.rate,
    "p50": lambda figures: figures.run_ms[0],
    "p99": lambda figures: figures.run_ms[2],
    **{f"CPU of {part}": (lambda figures, part=part: figures.cpu[part]) for part in _PARTS},
    "log": lambda figures: figures.wal,
}


def bends(base: Figures, again: Figures, figures: Figures) -> list[str]:
    """Return what costs more than at the base point, as `<what> <times>`.

    A cost counts that is above the dearer of the two base points by more than a quarter, and by more than
    they differ. What costs next to nothing (under 0.05 CPU seconds for 1,000 runs) is left out.
    """
    found: list[str] = []
    for name, cost in COSTS.items():
        low, high = sorted((cost(base), cost(again)))
        floor = 0.05 if name.startswith("CPU") else 0.0
        least = max(high * max(_BENT, high / low if low else 1), floor)
        if cost(figures) > least:
            found.append(f"{name} {cost(figures) / high:.1f} ×" if high else f"{name} from nothing")
    return found


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure line by line, and say what bends."""
    print(machine(), flush=True)
    values = {name: getattr(arguments, name) for name in Point._fields}
    found: dict[str, Figures] = {}
    with contextlib.ExitStack() as exits:
        runners, stack = exits.enter_context(unlimited())
        runners.plain.run(stack.change_worker({}))
        bench = runners.fast.run(Bench(stack).open())
        exits.callback(lambda: runners.fast.run(bench.close()))
        rig = Rig(runners, stack, bench, arguments.clients)
        print(f"\nw1, {arguments.clients} clients that post, {arguments.seconds:g} s a line\n{_HEAD}")
        for name, point in lines(values):
            found[name], stored = rig.measure(point, arguments.seconds)
            print(f"{name:<20}{show(found[name], stored)}", flush=True)
    print("\nbends:")
    base, again = found.pop("base"), found.pop("base again")
    for name, figures in found.items():
        if bent := bends(base, again, figures):
            print(f"{name:<20}{', '.join(bent)}")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--apis", nargs="+", type=int, default=[1, 2, 4], help="API processes")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4], help="worker processes")
    parser.add_argument("--workflows", nargs="+", type=int, default=[1, 200], help="that get events in turn")
    parser.add_argument("--accounts", nargs="+", type=int, default=[1, 20], help="whose they are")
    parser.add_argument(
        "--execution", nargs="+", choices=["auto", "workflow", "shift"], default=["auto", "workflow"],
        help="who takes runs forward",
    )  # fmt: skip
    parser.add_argument("--stored", nargs="+", type=int, default=[1000, 100_000], help="finished runs")
    parser.add_argument("--clients", type=int, default=32, help="each with a request in flight")
    parser.add_argument("--seconds", type=float, default=4)
    return parser.parse_args()


if __name__ == "__main__":
    main(_parse_arguments())
