"""Workflows that are due in the same minute: the time until each is accepted, and done.

    python -m bench.schedules [--workflows 1000] [--clients 8]

So many workflows of one account, each with one HTTP call between a condition and a transform, all due at the
same second by their crons. They are created through the API; then their Temporal Schedules are told. Times
are those of Postgres' clock, from when the runs were due. All should be accepted within 60 seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import httpx

from bench.machine import machine
from bench.measuring import PARTS
from bench.shapes import SHAPES
from bench.stack import Runners, Stack, nothing, running
from database import Database

# Schedules must be created before they are due.
_LEAD = timedelta(seconds=30)
_LEAD_EACH = timedelta(seconds=0.1)
_LOOK_SECONDS = 0.25
_DONE_SECONDS = 600
_UNTOLD: LiteralString = (
    "select count(*) from automation_schedules where scheduled_for is distinct from next_run_at"
)
_SHAPE = SHAPES["w1"]


@dataclass
class Scheduled:
    """Workflows of a stack that are due at one moment."""

    stack: Stack
    database: Database
    at: datetime

    async def create(self, count: int, clients: int) -> float:
        """Create workflows through the API; return the seconds."""
        numbers, started = iter(range(count)), time.perf_counter()
        headers = {"Authorization": f"Bearer {self.stack.key}"}
        steps = _SHAPE.definition("bench", self.stack.echo)["steps"]

        async def send(client: httpx.AsyncClient) -> None:
            for number in numbers:
                schedule = {"cron": f"{self.at.minute} {self.at.hour} * * *"}
                trigger = {"type": "schedule", "schedule": schedule, "input": _SHAPE.event(number)}
                body: dict[str, Any] = {"name": f"bench {number}", "trigger": trigger, "steps": steps}
                answer = await client.post("/api/workflows", json=body)
                assert answer.status_code == 201, answer.text

        async with httpx.AsyncClient(
            base_url=self.stack.url, headers=headers, trust_env=False, timeout=60
        ) as client:
            await asyncio.gather(*(send(client) for _ in range(clients)))
        return time.perf_counter() - started

    async def until(self, query: LiteralString, wanted: int) -> float:
        """Wait until a query counts this many; return the seconds."""
        started = time.perf_counter()
        while (count := (await self.row(query))[0]) != wanted:
            took = time.perf_counter() - started
            assert took < _DONE_SECONDS, f"{count} instead of {wanted} after {took:.0f} s: {query}"
            await asyncio.sleep(_LOOK_SECONDS)
        return time.perf_counter() - started

    async def row(self, query: LiteralString, *values: Any) -> tuple[Any, ...]:
        """Return the row of a query."""
        async with self.database.connection() as connection:
            row = await (await connection.execute(query, values)).fetchone()
        assert row is not None
        return tuple(row.values())

    async def after_due(self, column: LiteralString) -> str:
        """Return the seconds from the due time to the moment in a column: p50, p99 and most."""
        query: LiteralString = (
            "select percentile_cont(0.5) within group (order by s) as a,"
            " percentile_cont(0.99) within group (order by s) as b, max(s) as c"
            " from (select extract(epoch from {} - %s)::float as s from runs) as each"
        )
        return "".join(f"{seconds:9.2f}" for seconds in await self.row(query.format(column), self.at))


@contextlib.asynccontextmanager
async def opened(stack: Stack, at: datetime) -> AsyncGenerator[Scheduled]:
    """Connect to the stack's database, for the block."""
    url = stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value(), name="bench")
    await database.open()
    try:
        yield Scheduled(stack, database, at)
    finally:
        await database.close()


async def measure(stack: Stack, count: int, clients: int) -> None:
    """Print the durations of creating them, creating their Schedules, accepting and ending their runs."""
    await stack.change_worker({})
    at = (datetime.now(UTC) + _LEAD + count * _LEAD_EACH).replace(second=0, microsecond=0)
    async with opened(stack, at + timedelta(minutes=1)) as scheduled:
        created = await scheduled.create(count, clients)
        told = await scheduled.until(_UNTOLD, 0)
        left = (scheduled.at - datetime.now(UTC)).total_seconds()
        assert left > 0, f"Schedules are due before they are told; {-left:.0f} s more were needed"
        print(f"\n{count} workflows: created in {created:.1f} s, their Schedules told {told:.1f} s later")
        await asyncio.sleep(left)
        before = stack.cpu_seconds()
        await scheduled.until("select count(*) from runs where completed_at is not null", count)
        after = stack.cpu_seconds()
        again = await scheduled.until(_UNTOLD, 0)
        failed = await scheduled.row("select count(*) from runs where status <> 'completed'")
        assert failed == (0,), f"{failed[0]} runs have failed"
        print(f"\n{'seconds after they were due':30}      p50      p99     most")
        print(f"{'accepted':30}{await scheduled.after_due('queued_at')}")
        print(f"{'done':30}{await scheduled.after_due('completed_at')}")
        cpu = "".join(f"  {part} {after[part] - before[part]:.1f}" for part in PARTS)
        print(f"CPU seconds until all were done:{cpu}; Schedules told the next time {again:.1f} s later")


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    with Runners.made() as runners, running(runners, nothing, VEDETTE_LOCAL_ONLY="1") as stack:
        runners.plain.run(measure(stack, arguments.workflows, arguments.clients))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workflows", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=8)
    main(parser.parse_args())
