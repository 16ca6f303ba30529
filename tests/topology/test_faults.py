"""Each part is killed, and suspended, under load: nothing acknowledged is lost, nothing called too late."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from bench import faults
from tests.topology.topology import WORKERS, Load, deadline_after

pytestmark = pytest.mark.topology

_SUSPENDED_SECONDS = 10.0
_KILLED = {
    "an API": "app1/vedette-api", "a worker": "app2/vedette-worker", "the proxy": "proxy/haproxy",
    "PgBouncer": "pool/pgbouncer", "Temporal": "temporal/temporal", "Postgres": "db1/postgresql",
}  # fmt: skip
_SUSPENDED = {
    "an API": "app2/vedette-api", "the proxy": "proxy/haproxy", "PgBouncer": "pool/pgbouncer",
    "Temporal": "temporal/temporal", "the standby": "db2/postgresql",
}  # fmt: skip


async def _back(load: Load, what: str, former: set[str] | None = None) -> None:
    took = await load.in_service(former)
    await load.all_end()
    print(f"{what}: back after {took:.1f} s; {len(load.senders.acknowledged)} runs until now,"
          f" refused {dict(load.senders.refused)}, called again {load.repeated()}")  # fmt: skip


@pytest.mark.parametrize("part", _KILLED)
async def test_a_part_that_is_killed_is_back_soon_and_loses_nothing(load: Load, part: str) -> None:
    former = await load.topology.shifts()
    load.topology.machines.units[_KILLED[part]].send(signal.SIGKILL)
    await _back(load, f"{part} killed", former if part == "a worker" else None)


@pytest.mark.parametrize("part", _SUSPENDED)
async def test_a_part_that_stands_still_loses_nothing_and_nothing_is_called_too_late(
    load: Load, part: str
) -> None:
    unit = load.topology.machines.units[_SUSPENDED[part]]
    async with load.topology.watching(*WORKERS):
        unit.send_all(signal.SIGSTOP)
        stopped = time.time()
        await asyncio.sleep(_SUSPENDED_SECONDS)
        went_on = time.time()
        unit.send_all(signal.SIGCONT)
    await _back(load, f"{part} suspended")
    if part == "PgBouncer":  # the worker of app1 could not beat
        assert load.late_calls(WORKERS[0], deadline_after(stopped), went_on) == []


async def test_a_worker_that_stood_still_begins_no_call_before_it_has_a_new_shift(load: Load) -> None:
    former = await load.topology.shifts()
    scene = faults.Scene(load.topology, load.receiver, 0, 0)  # type: ignore[arg-type]
    await faults.worker_stopped(scene)
    assert scene.broken == []
    await _back(load, "a worker suspended", former)
