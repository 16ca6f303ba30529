"""Faults of a stack's parts under load: no acknowledged work may be lost.

    python -m bench.faults [--only TEXT] [--workers 2] [--seconds 10] [--away 60]

Each fault has a stack of its own, two workers, and a load of events, delays, approvals and families before,
during and after it. The exit code is 1 if a run was lost or is stuck, if a server crashed by itself, or if a
bound does not hold; docs/benchmarks.md says which there are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, LiteralString, NamedTuple

import psutil
import psycopg
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.service import RPCError

from bench.approvals import keyring_of
from bench.faulty_load import Outcome, Receiver, Senders, receiving, settle
from bench.machine import machine
from bench.stack import Stack, unlimited
from temporal.client import connect
from tests.stacks import eventually

_DONE_SECONDS, _TAKEOVER_SECONDS, _LATE_SECONDS = 150.0, 20.0, 2.0
_STOPPED_SECONDS = 15.0
# Temporal's SDK tries for twenty to say how activities have ended.
_SHUTDOWN_SECONDS = 25.0
_READ_ONLY_SECONDS, _FULL_SECONDS = 60.0, 30.0
_MOST_CONNECTIONS = 300
_MOST_SHOWN, _WIDTH = 6, 160
_CRASH = re.compile(r"terminated by signal (?!9\b)|\bPANIC:|deadlock detected")


@dataclass
class Scene:
    """A stack under load.

    Attributes:
        seconds: of load before and after the fault.
        away: seconds for which Temporal is unreachable.
        notes: figures of the fault itself.
        broken: bounds that did not hold.
    """

    stack: Stack
    receiver: Receiver
    seconds: float
    away: float
    notes: list[str] = field(default_factory=list[str])
    broken: list[str] = field(default_factory=list[str])

    def check(self, held: bool, what: str) -> None:
        """Record a bound, and whether it held."""
        self.notes.append(what)
        if not held:
            self.broken.append(what)


Do = Callable[[Scene], Awaitable[None]]


class Fault(NamedTuple):
    """One kind of fault.

    Attributes:
        late: the greatest lateness of a delay in seconds; None if the record itself was unreachable.
        done: the greatest time from the end of the load until all runs have ended, in seconds.
    """

    do: Do
    late: float | None = None
    done: float = _DONE_SECONDS


@asynccontextmanager
async def _superuser(stack: Stack) -> AsyncGenerator[psycopg.AsyncConnection[tuple[Any, ...]]]:
    url = stack.settings.database_url
    assert url is not None
    async with await psycopg.AsyncConnection[tuple[Any, ...]].connect(
        url.get_secret_value(), autocommit=True, options="-c default_transaction_read_only=off"
    ) as connection:
        yield connection


async def _execute(stack: Stack, *queries: LiteralString) -> None:
    async with _superuser(stack) as connection:
        for query in queries:
            await connection.execute(query)


async def read_only(scene: Scene) -> None:
    """Stop writes in Postgres for a while, as in a failover."""
    reload: LiteralString = "select pg_reload_conf()"
    await _execute(scene.stack, "alter system set default_transaction_read_only = on", reload)
    await asyncio.sleep(_READ_ONLY_SECONDS)
    await _execute(scene.stack, "alter system reset default_transaction_read_only", reload)


async def connections_used_up(scene: Scene) -> None:
    """Take every free connection, and those of a killed worker."""
    url = scene.stack.settings.database_url
    assert url is not None
    taken: list[psycopg.AsyncConnection[tuple[Any, ...]]] = []

    async def take_all() -> None:
        with suppress(psycopg.OperationalError):
            while len(taken) < _MOST_CONNECTIONS:
                taken.append(await psycopg.AsyncConnection[tuple[Any, ...]].connect(url.get_secret_value()))

    await take_all()
    await scene.stack.kill_worker()
    until = time.monotonic() + _FULL_SECONDS
    while time.monotonic() < until:
        await take_all()
        await asyncio.sleep(0.5)
    scene.notes.append(f"{len(taken)} connections taken")
    for connection in taken:
        await connection.close()
    # Before that it would end at once, and its supervisor would restart it.
    await scene.stack.add_worker()


async def postgres_killed(scene: Scene) -> None:
    """Kill a server process of Postgres, which then restarts itself; then kill all of it."""
    async with _superuser(scene.stack) as connection:
        cursor = await connection.execute(
            "select pid from pg_stat_activity where application_name like 'vedette%' limit 1"
        )
        row = await cursor.fetchone()
    assert row is not None
    os.kill(row[0], signal.SIGKILL)
    await asyncio.sleep(scene.seconds)
    await scene.stack.kill_postgres()
    await asyncio.sleep(2)
    await scene.stack.start_postgres()


async def host_shut_down(scene: Scene) -> None:
    """Kill the servers before the workers, which end all the same; others go on with their runs."""
    stack = scene.stack
    await stack.kill_postgres()
    await stack.kill_temporal()
    began = time.monotonic()
    stopped = len(stack.worker_pids)
    await asyncio.gather(*(stack.stop_worker() for _ in range(stopped)))
    took = time.monotonic() - began
    scene.check(took <= _SHUTDOWN_SECONDS, f"the workers ended in {took:.1f} s")
    await stack.start_postgres()
    await stack.start_temporal()
    for _ in range(stopped):
        await stack.add_worker()


async def temporal_stopped(scene: Scene) -> None:
    """Suspend Temporal; kill and start a worker meanwhile."""
    pid = scene.stack.temporal_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(scene.away / 2)
        await scene.stack.kill_worker()
        await scene.stack.add_worker()
        await asyncio.sleep(scene.away / 2)
    finally:
        os.kill(pid, signal.SIGCONT)


async def temporal_killed(scene: Scene) -> None:
    """Kill Temporal; kill and start a worker meanwhile."""
    await scene.stack.kill_temporal()
    await asyncio.sleep(scene.away / 2)
    await scene.stack.kill_worker()
    await scene.stack.add_worker()
    await asyncio.sleep(scene.away / 2)
    await scene.stack.start_temporal()


async def worker_stopped(scene: Scene) -> None:
    """Suspend a worker for longer than its shift, then resume it: it must begin no call under that shift."""
    pid = scene.stack.worker_pids[0]
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(_STOPPED_SECONDS)
    continued = time.time()
    os.kill(pid, signal.SIGCONT)
    ports: set[int] = set()
    worker, began = psutil.Process(pid), time.monotonic()
    while time.monotonic() - began < 6:
        ports |= {one.laddr.port for one in worker.net_connections("tcp4")}
        await asyncio.sleep(0.02)
    async with _superuser(scene.stack) as connection:
        cursor = await connection.execute(
            "select extract(epoch from max(started_at))::float from shifts"
            " where started_at > to_timestamp(%s)",
            (continued,),
        )
        row = await cursor.fetchone()
    again = row[0] if row and row[0] else continued + 6
    late = [c for c in scene.receiver.calls if continued < c.at < again and c.port in ports]
    scene.check(not late, f"{len(late)} late calls in {again - continued:.1f} s")


async def workers_killed(scene: Scene) -> None:
    """Kill every worker, and start others at once, as a supervisor does."""
    count = len(scene.stack.worker_pids)
    for _ in range(count):
        await scene.stack.kill_worker()
    await asyncio.gather(*(scene.stack.add_worker() for _ in range(count)))


async def two_builds(scene: Scene) -> None:
    """Replace workers without a build by those of one, and these by the next, while both run."""
    former = len(scene.stack.worker_pids)
    await scene.stack.add_worker(VEDETTE_BUILD_ID="one")
    await _make_current(scene.stack, "one")
    for _ in range(former):
        await scene.stack.stop_worker()
    await asyncio.sleep(scene.seconds)
    await scene.stack.add_worker(VEDETTE_BUILD_ID="two")
    await asyncio.sleep(scene.seconds)
    await _make_current(scene.stack, "two")
    await asyncio.sleep(scene.seconds)
    await scene.stack.stop_worker()


async def _make_current(stack: Stack, build: str) -> None:
    """Make a build current, as `temporal worker deployment set-current-version` does."""
    client = await connect(stack.settings, keyring_of(stack))
    asked = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace, deployment_name="vedette", build_id=build
    )

    async def is_current() -> bool:
        with suppress(RPCError):
            await client.workflow_service.set_worker_deployment_current_version(asked)
            return True
        return False

    await eventually(is_current, 60, f"the build {build} is the current one")


FAULTS: dict[str, Fault] = {
    "workers killed": Fault(workers_killed, done=_TAKEOVER_SECONDS),
    "worker stopped": Fault(worker_stopped),
    "Postgres read-only": Fault(read_only),
    "connections used up": Fault(connections_used_up),
    "Postgres killed": Fault(postgres_killed),
    "Temporal stopped": Fault(temporal_stopped, late=_LATE_SECONDS),
    "Temporal killed": Fault(temporal_killed, late=_LATE_SECONDS),
    "host shut down": Fault(host_shut_down),
    "two builds": Fault(two_builds),
}


async def stage(stack: Stack, name: str, workers: int, seconds: float, away: float) -> int:
    """Run one fault and print the result of the load; return how many bounds did not hold."""
    fault = FAULTS[name]
    await stack.change_worker({}, workers)
    async with receiving() as receiver:
        scene, senders = Scene(stack, receiver, seconds, away), Senders(stack, receiver)
        await senders.open()
        await asyncio.sleep(seconds)
        logged, before = len(stack.postgres_log()), len(stack.worker_logs())
        began = time.monotonic()
        await fault.do(scene)
        scene.notes.append(f"the fault took {time.monotonic() - began:.0f} s")
        await asyncio.sleep(seconds)
        await senders.stop()
        outcome = await settle(stack, senders, receiver, _DONE_SECONDS)
    _judge(scene, fault, outcome)
    crashes = [line for line in stack.postgres_log()[logged:].splitlines() if _CRASH.search(line)]
    scene.broken += [f"Postgres' log: {line}" for line in crashes]
    _show(name, scene, outcome, senders.refused, stack.worker_logs()[before:])
    return len(scene.broken)


def _judge(scene: Scene, fault: Fault, outcome: Outcome) -> None:
    for number, what in ((outcome.lost, "lost"), (outcome.stuck, "stuck")):
        if number:
            scene.broken.append(f"{number} runs are {what}")
    if fault.late is not None and outcome.late > fault.late:
        scene.broken.append(f"a delay was {outcome.late:.1f} s late")
    if outcome.took > fault.done:
        scene.broken.append(f"all had ended only after {outcome.took:.1f} s")


def _show(name: str, scene: Scene, outcome: Outcome, refused: Counter[str], log: str) -> None:
    ended = ", ".join(f"{status} {count:,}" for status, count in sorted(outcome.ended.items()))
    print(f"\n{name}: {'; '.join(scene.notes)}")
    print(f"  acknowledged {outcome.acknowledged:,}; ended with children: {ended}")
    print(f"  lost {outcome.lost}, stuck {outcome.stuck}, calls made twice {outcome.doubled}")
    print(f"  delays at most {outcome.late:.1f} s late; all had ended {outcome.took:.1f} s after the load")
    print(f"  requests refused meanwhile: {dict(refused) or 'none'}")
    print(f"  errors in the workers' logs: {dict(_errors_in(log)) or 'none'}")
    for what in scene.broken[:_MOST_SHOWN]:
        print(f"  did not hold: {what}")
    sys.stdout.flush()


def _errors_in(log: str) -> Counter[str]:
    """Count the errors in logs by event, and tracebacks by their last line."""
    found = Counter[str]()
    for line in log.splitlines():
        with suppress(ValueError, AttributeError):
            entry = json.loads(line)
            trace = str(entry.get("exception", "")).strip().splitlines()
            if trace or entry.get("level") == "error":
                # Temporal's SDK appends the activity in brackets.
                event = str(entry.get("event", "?")).partition(" (")[0]
                found[": ".join([event, *trace[-1:]])[:_WIDTH]] += 1
                continue
        if line.startswith("Traceback"):
            found["a traceback that is no JSON"] += 1
    return found


def main(arguments: argparse.Namespace) -> None:
    """Run the requested faults."""
    print(machine(), flush=True)
    broken, given = 0, arguments
    for name in FAULTS:
        if given.only.lower() in name.lower():
            with unlimited() as (runners, stack):
                broken += runners.plain.run(stage(stack, name, given.workers, given.seconds, given.away))
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only the faults whose name has this text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of load before and after the fault")
    parser.add_argument("--away", type=float, default=60, help="seconds for which Temporal is away")
    main(parser.parse_args())
