"""Bulk work: jobs from the file to its results, streams of profiles, searches of a hundred; and neighbours.

    python -m bench.bulk [--part jobs slow streams] [--rows 10000] [--emails 1000] [--delay 50]

`jobs`: a CSV file of so many IP addresses, then one of phone numbers, looked up in the data of `vedette data
fetch`: until the upload is accepted, until the job has ended by Postgres' clock and by the client's, until
its results are read. Then each once more beside neighbours, of whom one looks up an address and another has a
run of the workflow `w1`, twenty times a second each. `slow`: the addresses beside a source over the network
that allows one request a second. `streams`: `bulk-lookup` of so many e-mail addresses and searches of 100
queries, whose sources are on this machine and answer at once or after so many ms.

The most memory that a process had is told in MiB. The load generator shares the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import httpx

from bench import load
from bench.bulk_streams import LocalSource, connected, only_from, streams, watch
from bench.ingest_neighbours import workflow
from bench.lookups import addresses, fetch_data
from bench.machine import machine
from bench.measuring import PARTS
from bench.shapes import SHAPES
from bench.stack import Runners, Stack, nothing, running

_PARTS = ("jobs", "slow", "streams")
_IDLE_SECONDS, _PACE_SECONDS, _LOOK_SECONDS, _DONE_SECONDS = 5.0, 0.05, 0.05, 600.0
NO_LIMITS = {f"VEDETTE_LIMIT_{name}": "off" for name in ("BULK", "IP", "LOOKUPS", "LOGIN", "INGEST")}


@dataclass
class Meanwhile:
    """Measurements beside a load: the neighbours' latencies in ms, the most memory by part in MiB."""

    lookups: list[float] = field(default_factory=list[float])
    runs: list[float] = field(default_factory=list[float])
    memory: dict[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        latencies = "".join(
            f"{_share(took, 0.5):8.1f}{_share(took, 0.99):8.1f}" if took else f"{'-':>8}" * 2
            for took in (self.lookups, self.runs)
        )
        return latencies + "".join(f"{self.memory[part]:8}" for part in ("api", "worker"))


def _share(took: Sequence[float], share: float) -> float:
    ordered = sorted(took)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Neighbours:
    """Neighbours that look up one address, or run one workflow, at a time, at a steady pace."""

    def __init__(self, stack: Stack, hook: str) -> None:
        """Prepare; `hook`: the path of the workflow's events."""
        self._stack = stack
        credential = {"Authorization": f"Bearer {stack.key}"}
        self._lookups = itertools.cycle(
            load.request_bytes("POST", "/api/agent/ip", credential, b'{"ip": "%s"}' % address.encode())
            for address in addresses(5_000, seed=8)
        )
        bodies = SHAPES["w1"].bodies()
        self._runs = (load.request_bytes("POST", f"{hook}?wait=30", {}, body) for body in bodies)

    @contextlib.asynccontextmanager
    async def beside(self, *, busy: bool = True) -> AsyncGenerator[Meanwhile]:
        """Run the neighbours during the block if `busy`, and measure the memory."""
        found, over = Meanwhile(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            if busy:
                group.create_task(self._ask(self._lookups, found.lookups, over))
                group.create_task(self._ask(self._runs, found.runs, over))
            group.create_task(watch(self._stack, found.memory, over))
            try:
                yield found
            finally:
                over.set()

    async def _ask(self, requests: Iterator[bytes], took: list[float], over: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._stack.port)
        due = time.perf_counter()
        while not over.is_set():
            await asyncio.sleep(due - time.perf_counter())
            started = time.perf_counter()
            writer.write(next(requests))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head[9:12] == b"200", head
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            ended = time.perf_counter()
            took.append((ended - started) * 1000)
            due = max(due + _PACE_SECONDS, ended)
        writer.close()


def phones(count: int) -> list[str]:
    """Return numbers of San Francisco."""
    return [f"+1415{2_000_000 + number * 7}" for number in range(count)]


async def job(client: httpx.AsyncClient, type: str, targets: Sequence[str]) -> list[float]:
    """Run a job on these targets; return its durations in seconds.

    Returns:
        From the start of the upload until the job was accepted, until it had ended, and until the client saw
            that; and for how long it read the results.
    """
    text = "\n".join([type, *targets, ""]).encode()
    started, began = time.perf_counter(), time.time()
    answer = await client.post("/api/bulk-jobs", files={"file": ("file.csv", text)}, data={"type": type})
    assert answer.status_code == 202, answer.text
    accepted, path = time.perf_counter() - started, f"/api/bulk-jobs/{answer.json()['id']}"
    while (shown := (await client.get(path)).json())["status"] in ("queued", "running"):
        assert time.perf_counter() < started + _DONE_SECONDS, shown
        await asyncio.sleep(_LOOK_SECONDS)
    seen = time.perf_counter() - started
    assert (shown["status"], shown["succeeded_rows"]) == ("completed", len(targets)), shown
    ended = datetime.fromisoformat(shown["completed_at"]).timestamp() - began
    reading = time.perf_counter()
    results = (await client.get(f"{path}/results")).text
    assert results.count("\n") > len(targets), results[-200:]
    return [accepted, ended, seen, time.perf_counter() - reading]


HEADS = (
    f"{'':16}{'seconds until':>32}{'':10}{'CPU seconds for 1,000 rows':>45}"
    f"{'lookup, ms':>16}{'w1, ms':>16}{'MiB':>16}",
    f"{'':16}" + "".join(f"{head:>8}" for head in ("202", "ended", "seen", "read", "rows/s")) + "  "
    + "".join(f"{part:>9}" for part in PARTS) + f"{'p50':>8}{'p99':>8}" * 2 + f"{'api':>8}{'worker':>8}",
)  # fmt: skip


async def jobs(stack: Stack, rows: int) -> None:
    """Print the durations of jobs, their cost, and the neighbours' waiting times."""
    hook = await workflow(stack, 0, {"steps": SHAPES["w1"].steps(stack.echo)})
    neighbours = Neighbours(stack, hook)
    async with neighbours.beside():
        await asyncio.sleep(1)
    print("", *HEADS, sep="\n")
    async with neighbours.beside() as idle:
        await asyncio.sleep(_IDLE_SECONDS)
    print(f"{'idle':103}{idle}", flush=True)
    async with connected(stack) as client:
        for type, targets in {"ip": addresses(rows, seed=6), "phone": phones(rows)}.items():
            await job(client, type, targets[:100])
            for busy in (False, True):
                used = stack.cpu_seconds()
                async with neighbours.beside(busy=busy) as meanwhile:
                    took = await job(client, type, targets)
                spent = stack.cpu_seconds()
                cpu = "".join(f"{(spent[part] - used[part]) / rows * 1000:9.2f}" for part in PARTS)
                seconds = "".join(f"{one:8.2f}" for one in took)
                print(f"{rows:7} {type:8}{seconds}{rows / took[1]:8.0f}  {cpu}{meanwhile}", flush=True)


async def beside_a_slow_source(stack: Stack, rows: int) -> None:
    """Print the duration of a job of addresses with a source that allows one request a second."""
    print(f"\n{'beside a slow source':24}{'202':>8}{'ended':>8}{'seen':>8}{'read':>8}{'rows/s':>8}")
    async with connected(stack) as client:
        await job(client, "ip", addresses(100, seed=6))
        for name, count in (("all fields", rows), ("all fields, again", rows)):
            took = await job(client, "ip", addresses(count, seed=7))
            seconds = "".join(f"{one:8.2f}" for one in took)
            print(f"{count:7} {name:16}{seconds}{count / took[1]:8.0f}", flush=True)


def main(arguments: argparse.Namespace) -> None:
    """Start a stack for each part, measure, print."""
    print(machine(), flush=True)
    with Runners.made() as runners:
        if "jobs" in arguments.part:
            local = {"VEDETTE_LOCAL_ONLY": "1", "VEDETTE_SIGNUP": "open", **NO_LIMITS}
            with running(runners, fetch_data, **local) as stack:
                runners.plain.run(stack.change_worker({}))
                runners.fast.run(jobs(stack, arguments.rows))
        if "slow" in arguments.part:
            source = LocalSource()
            settings = only_from(runners.fast.run(source.start()), ["abstractip"])
            with running(runners, fetch_data, VEDETTE_SIGNUP="open", **settings, **NO_LIMITS) as stack:
                runners.plain.run(stack.change_worker({}))
                runners.fast.run(beside_a_slow_source(stack, arguments.rows))
            runners.fast.run(source.stop())
        if "streams" in arguments.part:
            source = LocalSource()
            url = runners.fast.run(source.start())
            with running(runners, nothing, "bench.unmetered_api", **only_from(url), **NO_LIMITS) as stack:
                runners.plain.run(stack.change_worker({}))
                runners.fast.run(streams(stack, source, arguments.emails, arguments.delay / 1000))
            runners.fast.run(source.stop())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--emails", type=int, default=1_000)
    parser.add_argument("--delay", type=float, default=50, help="of the sources, in ms")
    main(parser.parse_args())
