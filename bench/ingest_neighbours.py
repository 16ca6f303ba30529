"""The cost of other accounts' events for a neighbour, who posts alone, then beside expensive events.

    python -m bench.ingest_neighbours [--seconds 5] [--clients 6] [--rounds 2]

The heavy events are held against an `input_schema` of 900 checks, or have a `dedupe` of some 80 ms. Once they
are all of one account, once each client is another account. No worker runs: an event is answered when its run
is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import httpx

from bench import load
from bench.accounts import sign_in
from bench.machine import machine
from bench.stack import Stack, unlimited

_ITEMS = json.dumps(list(range(7_900))).encode()
_NUMBERS = json.dumps(list(range(180))).encode()
_DEDUPE = "length(map(&length(map(&to_string(@), $.trigger)), trigger))"
_HEAVY: dict[str, tuple[dict[str, Any], bytes]] = {
    "schema": (
        {"input_schema": {"items": {"allOf": [{"minimum": -n} for n in range(900)]}}},
        _ITEMS,
    ),
    "dedupe": (
        {"trigger": {"type": "webhook", "dedupe": _DEDUPE}},
        _NUMBERS,
    ),
}
_LIGHT = {
    "input_schema": {
        "type": "object",
        "required": ["email"],
        "properties": {"email": {"type": "string", "format": "email"}, "amount": {"type": "number"}},
    },
    "trigger": {"type": "webhook", "dedupe": "trigger.id"},
}
_EVENT = b'{"email": "ada@example.com", "amount": 12.5, "id": null}'


class Line:
    """Figures of one kind of neighbour, over all rounds."""

    def __init__(self) -> None:
        self.neighbour = load.Result(0)
        self.heavy: Counter[int] = Counter()
        self.seconds = 0.0

    def __str__(self) -> str:
        p50, p95, p99 = (self.neighbour.percentile(share) for share in (0.5, 0.95, 0.99))
        answers = ", ".join(f"{status}: {count}" for status, count in sorted(self.heavy.items()))
        rate = len(self.neighbour.latencies) / self.seconds
        return f"{rate:7.0f} {p50:8.1f} {p95:8.1f} {p99:8.1f}   {answers}"


async def workflow(stack: Stack, number: int, fields: dict[str, Any]) -> str:
    """Create a workflow in the account with this number; return the path for its events."""
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False, timeout=60) as client:
        headers = await sign_in(client, number)
        document = {"name": "bench", "trigger": {"type": "webhook"}, "steps": [], **fields}
        answer = await client.post("/api/workflows", json=document, headers=headers)
        assert answer.status_code == 201, answer.text
        return urlsplit(answer.json()["webhook_url"]).path


async def beside(
    line: Line, port: int, light: bytes, heavy: list[bytes], clients: int, seconds: float
) -> None:
    """Run the neighbour's client, while others send heavy events."""
    share = clients // max(1, len(heavy))
    others = [
        asyncio.create_task(load.run(load.Address(port), request, clients=share, seconds=seconds + 1))
        for request in heavy
    ]
    await asyncio.sleep(0.5 if heavy else 0)
    found = await load.run(load.Address(port), light, clients=1, seconds=seconds)
    line.neighbour.latencies += found.latencies
    line.seconds += found.seconds
    assert set(found.statuses) == {202}, found.statuses
    for other in others:
        line.heavy += (await other).statuses


async def measure(stack: Stack, clients: int, seconds: float, rounds: int) -> None:
    """Measure and print all lines, in turns."""
    post = load.request_bytes
    light = post("POST", await workflow(stack, 0, _LIGHT), {}, _EVENT)
    cases: dict[str, list[bytes]] = {"alone": []}
    for name, (fields, body) in _HEAVY.items():
        paths = [await workflow(stack, number, fields) for number in range(1, clients + 1)]
        requests = [post("POST", path, {}, body) for path in paths]
        cases[f"{name}, one account"], cases[f"{name}, {clients} accounts"] = requests[:1], requests
    lines = {name: Line() for name in cases}
    await beside(Line(), stack.port, light, [requests[0] for requests in list(cases.values())[1:]], 4, 1)
    for _ in range(rounds):
        for name, requests in cases.items():
            await beside(lines[name], stack.port, light, requests, clients, seconds)
    print(f"\n{'':24} each s  p50, ms      p95      p99   answers to the {clients} others")
    for name, line in lines.items():
        print(f"{name:<23}{line}", flush=True)


def main(arguments: argparse.Namespace) -> None:
    """Start a stack, measure, print."""
    print(machine(), flush=True)
    with unlimited() as (runners, stack):
        runners.fast.run(measure(stack, arguments.clients, arguments.seconds, arguments.rounds))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main(_parse_arguments())
