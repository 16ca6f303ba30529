"""W1, end to end: ingest → condition → one HTTP call → transform → completed.

    python -m bench.automations [--clients 32] [--seconds 20]

Prints completed runs a second while clients post without pause, the delay from post to finished run at one in
flight, the sizes of the batches that formed, and the CPU each part used for 1,000 runs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from typing import Any

import aiohttp
import psycopg
import uvloop

from bench.stack import Stack, machine, running


def definition(echo: str) -> dict[str, Any]:
    """The workflow W1."""
    return {
        "name": "W1",
        "trigger": {"type": "webhook"},
        "steps": [
            {"id": "wanted", "type": "condition", "config": {"expression": "trigger.amount > 10"}},
            {
                "id": "call",
                "type": "webhook",
                "config": {"url": echo, "body": {"id": "{{ trigger.id }}", "amount": "{{ trigger.amount }}"}},
            },
            {
                "id": "shape",
                "type": "transform",
                "config": {"mapping": {"id": "trigger.id", "ok": "call.body.ok", "status": "call.status"}},
            },
        ],
    }


async def one_at_a_time(session: aiohttp.ClientSession, url: str, count: int) -> list[float]:
    """Seconds from post to finished run, one after the other."""
    delays: list[float] = []
    for number in range(count):
        start = time.perf_counter()
        async with session.post(f"{url}?wait=30", json={"id": number, "amount": 42}) as answer:
            run = await answer.json()
            assert answer.status == 200 and run["status"] == "completed", run
            assert run["output"] == {"id": number, "ok": True, "status": 200}, run
        delays.append(time.perf_counter() - start)
    return delays


async def flood(session: aiohttp.ClientSession, url: str, clients: int, seconds: float) -> list[float]:
    """Post without pause from many clients; the seconds each 202 took."""
    delays: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        while (start := time.perf_counter()) < end:
            async with session.post(url, json={"id": number, "amount": 42}) as answer:
                assert answer.status == 202, await answer.text()
            delays.append(time.perf_counter() - start)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return delays


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie, in milliseconds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


async def measure(stack: Stack, echo: str, clients: int, seconds: float) -> None:
    """Run and print it all."""
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {stack.key}"}
    async with aiohttp.ClientSession(connector=connector) as session:
        async with session.post(
            f"{stack.url}/api/workflows", json=definition(echo), headers=headers
        ) as answer:
            workflow = await answer.json()
            assert answer.status == 201, workflow
        url = workflow["webhook_url"]
        await one_at_a_time(session, url, 20)
        single = await one_at_a_time(session, url, 200)
        print(f"one in flight: p50 {percentile(single, 0.5):.1f} ms, p99 {percentile(single, 0.99):.1f} ms")
        before, start = stack.cpu_seconds(), time.perf_counter()
        done_before = await completed(stack)
        accepts = await flood(session, url, clients, seconds)
        posted_for = time.perf_counter() - start
        done_while_posting = await completed(stack) - done_before
        while await completed(stack) - done_before < len(accepts):
            await asyncio.sleep(0.05)
            assert time.perf_counter() - start < posted_for + 300, "runs are missing"
        total = time.perf_counter() - start
        cpu = {name: value - before[name] for name, value in stack.cpu_seconds().items()}
    print(
        f"{clients} clients for {posted_for:.1f} s: accepted {len(accepts) / posted_for:.0f}/s"
        f" (p50 {percentile(accepts, 0.5):.1f} ms, p99 {percentile(accepts, 0.99):.1f} ms),"
        f" completed {done_while_posting / posted_for:.0f}/s while posting,"
        f" all {len(accepts)} done after {total:.1f} s = {len(accepts) / total:.0f}/s"
    )
    shares = ", ".join(f"{name} {value / len(accepts) * 1000:.2f}" for name, value in cpu.items())
    print(f"CPU seconds per 1,000 runs: {shares}")
    sizes = await batch_sizes(stack, len(accepts))
    print(f"batches: {len(sizes)}, rows per batch mean {statistics.mean(sizes):.1f}, max {max(sizes)}")
    print("RSS MiB:", ", ".join(f"{name} {value}" for name, value in stack.rss_mib().items()))


async def query(stack: Stack, statement: str) -> list[tuple[Any, ...]]:
    """Ask the stack's database."""
    import json

    url = json.loads((stack.data / "stack.json").read_text())["database_url"]
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(statement)  # pyright: ignore[reportArgumentType]
        return await cursor.fetchall()


async def completed(stack: Stack) -> int:
    """How many runs have completed."""
    return (await query(stack, "select count(*) from runs where status = 'completed'"))[0][0]


async def batch_sizes(stack: Stack, newest: int) -> list[int]:
    """The sizes of the batches of the newest runs."""
    newest_runs = f"(select batch_id from runs order by id desc limit {newest}) r"
    return [row[0] for row in await query(stack, f"select count(*) from {newest_runs} group by batch_id")]


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    print(machine())
    echo = subprocess.Popen([sys.executable, "-m", "bench.echo"], stdout=subprocess.PIPE, text=True)
    try:
        assert echo.stdout is not None
        address = f"http://127.0.0.1:{echo.stdout.readline().strip()}/"
        with running(VEDETTE_LIMIT_INGEST="off") as stack:
            uvloop.run(measure(stack, address, arguments.clients, arguments.seconds))
    finally:
        echo.terminate()


if __name__ == "__main__":
    main()
