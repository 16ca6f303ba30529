"""The service on one machine and on the machines of docs/deploy.md, side by side, and how long each is away.

    python -m bench.topology [--seconds 8] [--clients 32] [--only load away]

The same load, `w1` whose ends are waited for, goes to a stack as `vedette up` runs it, and to the topology:
HAProxy, two APIs, two workers, PgBouncer, Postgres with a synchronous standby, and a Temporal server whose
databases are on that Postgres, all on this machine. Then a client posts every 50 ms while parts are replaced,
Postgres fails over, and a stack is backed up and restored: what counts is the longest time between two of its
events that were accepted. docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from urllib.parse import urlsplit

from bench.absences import HEAD, measure_backup, measure_topology, until_in_service
from bench.load import Address
from bench.machine import machine
from bench.measuring import Bench, Figures, Load
from bench.shapes import SHAPES
from bench.stack import UNLIMITED, Runners, Stack, echo_url, nothing, running, sum_cpu, with_children
from embedded.process import Child, ChildSetup
from tests.topology.topology import BLOCKS, FAILOVER, Topology, set_up

_PROCESSES = {
    "vedette-api": "api", "vedette-worker": "worker", "temporal": "temporal", "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
}  # fmt: skip
_LINES: dict[str, Callable[[Figures], float]] = {
    "runs each second": lambda figures: figures.rate,
    "answered p50, ms": lambda figures: figures.answer_ms[0],
    "answered p99, ms": lambda figures: figures.answer_ms[1],
    "accepted→completed p50, ms": lambda figures: figures.run_ms[0],
    "accepted→completed p99, ms": lambda figures: figures.run_ms[2],
    **{
        f"CPU s for 1,000 runs: {part}": (lambda figures, part=part: figures.cpu.get(part, 0.0))
        for part in ("api", "worker", "temporal", "postgres", "standby", "haproxy", "pgbouncer", "load")
    },
    "log of Postgres, KiB a run": lambda figures: figures.wal / 1024,
    "history of Temporal, KiB a run": lambda figures: figures.history / 1024,
}
_EXECUTIONS = ("auto", "workflow")


class Deployed:
    """The topology, as `Bench` takes a stack."""

    def __init__(self, topology: Topology, echo: Child) -> None:
        place = urlsplit(topology.url)
        assert place.hostname and place.port
        self.address = Address(place.port, place.hostname, topology.trust)
        self.url, self.key, self.settings = topology.url, topology.key, topology.settings
        self._machines, self._echo = topology.machines, echo
        self.echo = ""

    def cpu_seconds(self) -> dict[str, float]:
        """Return CPU seconds used so far by kind of process."""
        assert self._echo.pid is not None
        used = Counter({"load": sum_cpu(with_children(self._echo.pid)) + time.process_time()})
        for name, unit in self._machines.units.items():
            kind = _PROCESSES.get(name.partition("/")[2], "standby" if name.startswith("db2") else "postgres")
            used[kind] += sum_cpu(with_children(unit.pid))
        return used


@contextlib.asynccontextmanager
async def deploy(folder: Path) -> AsyncGenerator[tuple[Topology, Deployed]]:
    """Run the topology, and a server for webhooks, for the block."""
    folder.chmod(0o755)
    echo = Child("echo", [sys.executable, "-m", "bench.echo"], ChildSetup(), log=folder / "echo.log")
    extra = UNLIMITED | {"VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8"}
    async with set_up(folder, extra, BLOCKS[:FAILOVER]) as topology:
        await until_in_service(topology, set(), 2)
        await echo.start()
        try:
            made = Deployed(topology, echo)
            made.echo = await echo_url(echo)
            yield topology, made
        finally:
            await echo.stop(5)


async def measure(stack: Stack | Deployed, arguments: argparse.Namespace) -> list[Figures]:
    """Measure each way in which runs are executed."""
    bench = await Bench(stack).open()  # type: ignore[arg-type]
    load = Load(arguments.clients, 0, waiting=True, most_unfinished=2 * arguments.clients)
    found = list[Figures]()
    for execution in _EXECUTIONS:
        workflows = await bench.create(SHAPES["w1"], execution=execution)
        found.append(await bench.measure(workflows, load, arguments.seconds))
    await bench.close()
    return found


def show(embedded: list[Figures], topology: list[Figures]) -> None:
    """Print the figures of both sides, for each execution beside each other."""
    names = [f"{side} {execution}" for execution in _EXECUTIONS for side in ("embedded", "topology")]
    print(f"{'':32}" + "".join(f"{name:>20}" for name in names))
    for name, line in _LINES.items():
        found = [line(one) for both in zip(embedded, topology, strict=True) for one in both]
        print(f"{name:32}" + "".join(f"{one:20.2f}" for one in found))


def main(arguments: argparse.Namespace) -> None:
    """Measure one side after the other."""
    print(machine(), flush=True)
    sittings: list[list[Figures]] = []
    with contextlib.ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="vt-", dir="/tmp")))
        runners = exits.enter_context(Runners.made())
        if "load" in arguments.only:
            with running(runners, nothing, **UNLIMITED) as stack:
                runners.plain.run(stack.change_worker({}))
                sittings.append(runners.fast.run(measure(stack, arguments)))
        service = deploy(folder)
        topology, stack = runners.plain.run(service.__aenter__())
        try:
            if "load" in arguments.only:
                sittings.append(runners.fast.run(measure(stack, arguments)))
                print(f"\nw1, {arguments.clients} clients that wait, {arguments.seconds:g} s each")
                show(*sittings)
            if "away" in arguments.only:
                print(f"\n{HEAD}", flush=True)
                runners.plain.run(measure_topology(topology))
        finally:
            runners.plain.run(service.__aexit__(None, None, None))
        if "away" in arguments.only:
            (folder / "stacks").mkdir()
            runners.plain.run(measure_backup(folder / "stacks", UNLIMITED))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=["load", "away"], default=["load", "away"])
    parser.add_argument("--clients", type=int, default=32, help="each with a request in flight")
    parser.add_argument("--seconds", type=float, default=8, help="for each load")
    return parser.parse_args()


if __name__ == "__main__":
    main(_parse_arguments())
