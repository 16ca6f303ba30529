"""The cost of other accounts' runs for a neighbour, who waits for one run of one call at a time.

    python -m bench.run_neighbours [--seconds 10] [--delays 10000] [--retries 10000]

Beside `hanging`, three accounts have 30 runs each that call an endpoint for 300 items, and it never answers.
Beside `waking`, one account has runs in a delay that all end at the same moment. Beside `retried`, one
account retries all its failed runs by one bulk action. The worst of the neighbour's answers should stay
below five seconds, the median within four times that of `alone`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg

from bench import load
from bench.accounts import sign_in
from bench.ingest_neighbours import workflow
from bench.machine import machine
from bench.shapes import webhook
from bench.stack import Stack, unlimited

_ACCOUNTS, _RUNS, _ITEMS = 3, 30, 300
_HANGING = json.dumps({"items": list(range(_ITEMS))}).encode()
_SENDERS = 32
_UNTIL_SENT = timedelta(seconds=1.5)
"""Time for a thousand events to be sent."""


async def post(stack: Stack, path: str, bodies: Iterable[bytes]) -> None:
    """Send all events, and check that they are accepted."""
    await send_all(stack, [load.request_bytes("POST", path, {}, body) for body in bodies], _SENDERS)


async def send_all(stack: Stack, given: Iterable[bytes], senders: int) -> None:
    """Send all requests from this many connections, and check that each is answered by 202."""
    requests = iter(given)

    async def send() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", stack.port)
        for request in requests:
            writer.write(request)
            status = await load.read_status(reader)
            assert status == 202, status
        writer.close()

    await asyncio.gather(*(send() for _ in range(senders)))


async def ask(stack: Stack, path: str, seconds: float) -> str:
    """Do run after run for this many seconds; return one line of durations."""
    request = load.request_bytes("POST", f"{path}?wait=30", {}, b"{}")
    found = await load.run(load.Address(stack.port), request, clients=1, seconds=seconds)
    assert set(found.statuses) == {200}, found.statuses
    worst = max(found.latencies) * 1000
    return f"{found.rate:7.1f} {found.percentile(0.5):8.1f} {found.percentile(0.95):8.1f} {worst:8.1f}"


async def unfinished(stack: Stack) -> int:
    """Return the number of unfinished runs."""
    url = stack.settings.database_url
    assert url is not None
    async with await psycopg.AsyncConnection[tuple[Any, ...]].connect(url.get_secret_value()) as connection:
        row = await (await connection.execute("select count(*) from run_work")).fetchone()
    return row[0] if row else 0


async def beside_delays(stack: Stack, path: str, delays: int, seconds: float) -> str:
    """Return the neighbour's line from the end of the delays on, and the end of the last of their runs."""
    delaying = {"id": "nap", "type": "delay", "config": {"until": "{{ trigger.at }}"}}
    naps = await workflow(stack, 1, {"steps": [delaying]})
    at = datetime.now(UTC) + _UNTIL_SENT * max(4, delays / 1000)
    await post(stack, naps, itertools.repeat(json.dumps({"at": at.isoformat()}).encode(), delays))
    left = (at - datetime.now(UTC)).total_seconds()
    assert left > 0, "not all events were sent before the delays ended"
    await asyncio.sleep(left)
    began, asking = time.monotonic(), asyncio.create_task(ask(stack, path, seconds))
    while await unfinished(stack) > 1:
        await asyncio.sleep(0.1)
    took = time.monotonic() - began
    return f"{await asking}   the {delays} had ended after {took:.1f} s"


async def beside_retries(stack: Stack, path: str, retries: int, seconds: float) -> str:
    """Return the neighbour's line from the start of a bulk retry on, and how long that took."""
    number = _ACCOUNTS + 2
    breaking = {"id": "sum", "type": "transform", "config": {"expression": "sum(trigger)"}}
    failing = await workflow(stack, number, {"steps": [breaking]})
    await post(stack, failing, itertools.repeat(b'"text"', retries))
    while await unfinished(stack):
        await asyncio.sleep(0.1)
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False, timeout=60) as client:
        headers, body = await sign_in(client, number), {"action": "retry", "filter": {"status": "failed"}}

        async def send(**fields: Any) -> dict[str, Any]:
            answer = await client.post("/api/workflows/runs/bulk", json=body | fields, headers=headers)
            assert answer.is_success, answer.text
            return answer.json()

        confirm = (await send(dry=True))["confirm"]
        began, asking = time.monotonic(), asyncio.create_task(ask(stack, path, seconds))
        action = await send(confirm=confirm)
        while action["completed_at"] is None:
            await asyncio.sleep(0.1)
            action = (await client.get(f"/api/bulk-actions/{action['id']}", headers=headers)).json()
    took = time.monotonic() - began
    assert action["done"] == retries, action
    return f"{await asking}   the {retries} were accepted after {took:.1f} s"


async def measure(stack: Stack, seconds: float, delays: int, retries: int) -> None:
    """Print a line for each kind of neighbourhood."""
    await stack.change_worker({})
    path = await workflow(stack, 0, {"steps": [webhook("call", stack.echo, {})]})
    await ask(stack, path, 1)
    print(f"\n{'':10}  each s  p50, ms      p95    worst")
    print(f"{'alone':10} {await ask(stack, path, seconds)}", flush=True)
    print(f"{'waking':10} {await beside_delays(stack, path, delays, seconds)}", flush=True)
    print(f"{'retried':10} {await beside_retries(stack, path, retries, seconds)}", flush=True)
    over = asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await over.wait()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    step = webhook("each", url, {}, for_each="trigger.items")
    for number in range(_ACCOUNTS):
        others = await workflow(stack, number + 2, {"steps": [step]})
        await post(stack, others, [_HANGING] * _RUNS)
    print(f"{'hanging':10} {await ask(stack, path, seconds)}", flush=True)
    over.set()
    server.close()


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    with unlimited() as (runners, stack):
        runners.plain.run(measure(stack, arguments.seconds, arguments.delays, arguments.retries))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--delays", type=int, default=10_000)
    parser.add_argument("--retries", type=int, default=10_000)
    main(parser.parse_args())
