"""Files for workflows: a CSV file whose rows become runs, from the upload to the end of the last run.

    python -m bench.uploads [--rows 10000]

`pure` is a condition and a transform, `call` has an HTTP call between them, both with an `input_schema`. Told
are the seconds until the file is accepted, until the last run has ended by Postgres' clock and until the
client sees it, who asks every 50 ms; how long that took; and each once more beside neighbours, of whom one
looks up an address and another has a run of the workflow `w1`, twenty times a second each.

The most memory that a process had is told in MiB. The load generator shares the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import httpx

from bench.bulk import NO_LIMITS, Neighbours
from bench.bulk_streams import connected
from bench.ingest_neighbours import workflow
from bench.lookups import fetch_data
from bench.machine import machine
from bench.measuring import PARTS
from bench.shapes import SHAPES, condition, transform, webhook
from bench.stack import Runners, Stack, running

_IDLE_SECONDS, _LOOK_SECONDS, _DONE_SECONDS = 5.0, 0.05, 600.0
_SCHEMA = {
    "properties": {"email": {"format": "email"}, "amount": {"type": "string", "maxLength": 10}},
    "required": ["email", "amount"],
}
_HEADS = (
    f"{'':16}{'seconds until':>24}{'':9}{'CPU seconds for 1,000 rows':>45}{'looking, ms':>16}"
    f"{'lookup, ms':>16}{'w1, ms':>16}{'MiB':>16}",
    f"{'':16}" + "".join(f"{head:>8}" for head in ("202", "ended", "seen", "rows/s")) + " "
    + "".join(f"{part:>9}" for part in PARTS) + f"{'p50':>8}{'p99':>8}" * 3 + f"{'api':>8}{'worker':>8}",
)  # fmt: skip


def _steps(url: str) -> dict[str, list[dict[str, Any]]]:
    wanted = condition("wanted", "to_number(trigger.amount) > 10")
    shape = transform("shape", {"email": "trigger.email", "amount": "to_number(trigger.amount)"})
    call = webhook("call", url, {"email": "{{ trigger.email }}"})
    return {"pure": [wanted, shape], "call": [wanted, call, shape]}


def _table(rows: int) -> bytes:
    note = "x" * 100
    lines = (f"p{number}@example.com,{20 + number % 100},{note}" for number in range(rows))
    return "\n".join(["email,amount,note", *lines, ""]).encode()


async def upload(client: httpx.AsyncClient, path: str, rows: int) -> tuple[list[float], list[float]]:
    """Upload a file and wait for its runs; return the durations.

    Returns:
        The seconds from the start of the upload until it was accepted, until its runs had ended, and until
            the client saw that; and how many ms each look took.
    """
    table, looks = _table(rows), list[float]()
    started, began = time.perf_counter(), time.time()
    answer = await client.post(path, files={"file": ("table.csv", table)})
    assert answer.status_code == 202, answer.text
    accepted, shown = time.perf_counter() - started, dict[str, Any]()
    while shown.get("completed_at") is None:
        assert time.perf_counter() < started + _DONE_SECONDS, shown
        await asyncio.sleep(_LOOK_SECONDS)
        asked = time.perf_counter()
        shown = (await client.get(answer.headers["Location"])).json()
        looks.append((time.perf_counter() - asked) * 1000)
    seen = time.perf_counter() - started
    assert (shown["status"], shown["runs_completed"]) == ("completed", rows), shown
    return [accepted, datetime.fromisoformat(shown["completed_at"]).timestamp() - began, seen], looks


def _share(took: Sequence[float], share: float) -> float:
    ordered = sorted(took)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def uploads(stack: Stack, rows: int) -> None:
    """Print the durations of files, their cost, and the neighbours' waiting times."""
    neighbours = Neighbours(stack, await workflow(stack, 0, {"steps": SHAPES["w1"].steps(stack.echo)}))
    async with neighbours.beside():
        await asyncio.sleep(1)
    print("", *_HEADS, sep="\n")
    async with neighbours.beside() as idle:
        await asyncio.sleep(_IDLE_SECONDS)
    print(f"{'idle':110}{idle}", flush=True)
    async with connected(stack) as client:
        for name, steps in _steps(stack.echo).items():
            document = {
                "name": name, "trigger": {"type": "file_upload"}, "steps": steps, "input_schema": _SCHEMA
            }  # fmt: skip
            made = (await client.post("/api/workflows", json=document)).json()
            path = f"/api/workflows/{made['id']}/upload"
            await upload(client, path, 100)
            for busy in (False, True):
                used = stack.cpu_seconds()
                async with neighbours.beside(busy=busy) as meanwhile:
                    took, looks = await upload(client, path, rows)
                spent = stack.cpu_seconds()
                cpu = "".join(f"{(spent[part] - used[part]) / rows * 1000:9.2f}" for part in PARTS)
                seconds = "".join(f"{one:8.2f}" for one in took)
                looking = f"{_share(looks, 0.5):8.1f}{_share(looks, 0.99):8.1f}"
                line = f"{rows:7} {name:8}{seconds}{rows / took[1]:8.0f} {cpu}{looking}{meanwhile}"
                print(line, flush=True)


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    local = {"VEDETTE_LOCAL_ONLY": "1", "VEDETTE_SIGNUP": "open", **NO_LIMITS}
    with Runners.made() as runners, running(runners, fetch_data, **local) as stack:
        runners.plain.run(stack.change_worker({}))
        runners.fast.run(uploads(stack, arguments.rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    main(parser.parse_args())
