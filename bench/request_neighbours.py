"""The cost of another account's requests for a neighbour, who waits for one run of one call at a time.

    python -m bench.request_neighbours [--seconds 10] [--clients 500]

The other account asks from many connections at once, and again as soon as it is answered: beside `runs` for a
page of its runs, beside `counts` for its figures, beside `tools` for the tools of MCP, beside `keys` with a
key that nobody has. The worst
of the neighbour's answers should stay below a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import NamedTuple

import httpx

from bench import load
from bench.accounts import sign_in
from bench.ingest_neighbours import workflow
from bench.machine import machine
from bench.run_neighbours import ask
from bench.shapes import webhook
from bench.stack import Stack, unlimited


class Kind(NamedTuple):
    """The requests of the other account."""

    method: str
    path: str
    body: bytes = b""
    key: str | None = None
    status: int = 200


_KINDS = {
    "runs": Kind("GET", "/api/workflows/runs"),
    "tools": Kind("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()),
    "counts": Kind("GET", "/api/stats"),
    "keys": Kind("GET", "/api/workflows/runs", key="vdt_" + 40 * "x", status=401),
}


async def ask_again(stack: Stack, request: bytes, status: int, until: float) -> int:
    """Send the request again and again, each on a connection of its own; return the number of answers."""
    answered = 0
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", stack.port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 %d" % status), answer[:500]
        answered += 1
    return answered


async def measure(stack: Stack, seconds: float, clients: int) -> None:
    """Print a line for each kind of requests."""
    await stack.change_worker({})
    path = await workflow(stack, 0, {"steps": [webhook("call", stack.echo, {})]})
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False, timeout=60) as client:
        session = await sign_in(client, 1)
        answer = await client.post(
            "/api/keys", json={"name": "many", "scopes": ["workflows", "lookups"]}, headers=session
        )
        assert answer.is_success, answer.text
    headers = {
        "X-API-Key": answer.json()["key"],
        "Connection": "close",
        "Accept": "application/json, text/event-stream",
    }
    await ask(stack, path, 1)
    print(f"\n{'':10}  each s  p50, ms      p95    worst   the other's answers a second")
    print(f"{'alone':10} {await ask(stack, path, seconds)}", flush=True)
    for name, kind in _KINDS.items():
        sent = headers | ({"X-API-Key": kind.key} if kind.key else {})
        request = load.request_bytes(kind.method, kind.path, sent, kind.body)
        until = time.monotonic() + seconds + 1
        asking = [asyncio.create_task(ask_again(stack, request, kind.status, until)) for _ in range(clients)]
        await asyncio.sleep(0.5)
        line = await ask(stack, path, seconds)
        print(f"{name:10} {line}   {sum(await asyncio.gather(*asking)) / seconds:.0f}", flush=True)


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    with unlimited() as (runners, stack):
        runners.plain.run(measure(stack, arguments.seconds, arguments.clients))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=500)
    main(parser.parse_args())
