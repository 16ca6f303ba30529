"""Many runs that wait for a person: their resources while they wait, and the rate of resuming them.

    python -m bench.approvals [--runs 10000] [--clients 32]

Memory in MiB of the processes (Postgres shares pages: its sum counts them more than once), how many workflows
Temporal has open, and how many runs a second are resumed over HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from typing import Any
from uuid import UUID

import psycopg

from bench import load
from bench.ingest_neighbours import workflow
from bench.machine import machine
from bench.run_neighbours import post, send_all
from bench.stack import Stack, unlimited
from models.runs.resume_tokens import StepPosition, make_token
from sealing import Keyring, root_keys
from temporal.client import connect

_LOOK_SECONDS = 0.2
_DONE_SECONDS = 600
_OPEN = "ExecutionStatus = 'Running' and WorkflowType = 'AutomationRun'"
STEPS: list[dict[str, Any]] = [
    {"id": "approval", "type": "wait"},
    {"id": "after", "type": "transform", "config": {"expression": "approval.body.by"}},
]


async def ids_of(stack: Stack, status: str) -> list[UUID]:
    """Return the unfinished runs with a status."""
    url = stack.settings.database_url
    assert url is not None
    async with await psycopg.AsyncConnection[tuple[Any, ...]].connect(url.get_secret_value()) as connection:
        cursor = await connection.execute("select run_id from run_work where status = %s", (status,))
        return [row[0] for row in await cursor.fetchall()]


async def until(stack: Stack, status: str, wanted: int) -> None:
    """Wait until this many unfinished runs have a status."""
    started = time.monotonic()
    while len(await ids_of(stack, status)) != wanted:
        assert time.monotonic() - started < _DONE_SECONDS, f"not {wanted} runs are {status}"
        await asyncio.sleep(_LOOK_SECONDS)


async def open_workflows(stack: Stack) -> int:
    """Return the number of open workflows of runs in Temporal."""
    client = await connect(stack.settings, keyring_of(stack))
    return (await client.count_workflows(_OPEN)).count


def keyring_of(stack: Stack) -> Keyring:
    """Return the keys of a stack."""
    return Keyring(root_keys(stack.settings, sealed_data_exists=True))


async def resume_all(stack: Stack, run_ids: list[UUID], clients: int) -> float:
    """Post to the resume URL of each run; return the seconds."""
    keyring = keyring_of(stack)
    paths = (f"/api/workflows/resume/{make_token(keyring, StepPosition(run_id, 0))}" for run_id in run_ids)
    requests = [load.request_bytes("POST", path, {}, b'{"by": "ada"}') for path in paths]
    started = time.monotonic()
    await send_all(stack, requests, clients)
    return time.monotonic() - started


async def measure(stack: Stack, runs: int, clients: int) -> None:
    """Print the resources of waiting runs, and the rate of resuming them."""
    await stack.change_worker({})
    path = await workflow(stack, 0, {"steps": STEPS})
    before = stack.resident_mib()
    started = time.monotonic()
    await post(stack, path, itertools.repeat(b"{}", runs))
    accepted = time.monotonic() - started
    await until(stack, "waiting", runs)
    parked = time.monotonic() - started
    after = stack.resident_mib()
    print(f"\n{runs} runs accepted in {accepted:.1f} s; all wait after {parked:.1f} s")
    print("memory, MiB: " + ", ".join(f"{part} {before[part]} → {after[part]}" for part in after))
    print(f"workflows open in Temporal: {await open_workflows(stack)}")
    sent = await resume_all(stack, await ids_of(stack, "waiting"), clients)
    started = time.monotonic()
    await until(stack, "waiting", 0)
    for status in ("queued", "running"):
        await until(stack, status, 0)
    took = time.monotonic() - started
    print(f"resumed over HTTP: {runs / sent:.0f}/s; all done {took:.1f} s after the last")


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    with unlimited() as (runners, stack):
        runners.plain.run(measure(stack, arguments.runs, arguments.clients))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    main(parser.parse_args())
