"""Memory of a worker whose runs hold a lot at once, and wait for an endpoint that hangs.

    python -m bench.run_memory [--kinds inputs ...] [--runs 512] [--kibibytes 60] [--seconds 40]

All runs are of one account, and each kind has a stack of its own. Values consist of small objects, which take
25 times as much memory as their JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import httpx
import psutil
from aiohttp import web

from bench.machine import machine
from bench.stack import Stack, unlimited

_OUTPUTS, _STEPS, _ITEMS, _WIDTH = 6, 20, 1000, 50
_POSTING = 8
_LOOK_SECONDS = 0.1
Steps = list[dict[str, Any]]


def _value(size: int) -> list[dict[str, int]]:
    return [{"a": 1}] * (size // len('{"a":1},'))


def _webhook(step_id: str, url: str, body: Any, **more: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "webhook", "config": {"url": url, "body": body}, **more}


def _inputs(url: str, size: int) -> tuple[Steps, Any]:
    return [_webhook("call", f"{url}/held", "{{ length(trigger.value) }}")], {"value": _value(size)}


def _outputs(url: str, size: int) -> tuple[Steps, Any]:
    names = [f"get{number}" for number in range(_OUTPUTS)]
    body = {name: f"{{{{ length({name}.body) }}}}" for name in names}
    answered = [_webhook(name, f"{url}/answered/{size}", {}) for name in names]
    return [*answered, _webhook("call", f"{url}/held", body)], {}


def _items(url: str, size: int) -> tuple[Steps, Any]:
    each = _webhook("call", f"{url}/held", "{{ length(item) }}", for_each="trigger.value")
    return [each], {"value": [_value(6 * size // _ITEMS)] * _ITEMS}


def _calls(url: str, _size: int) -> tuple[Steps, Any]:
    names = [f"call{number}" for number in range(_STEPS)]
    steps = [_webhook(name, f"{url}/held", {}, for_each="trigger.value", needs=[]) for name in names]
    return steps, {"value": [*range(_WIDTH)]}


KINDS: dict[str, tuple[str, Callable[[str, int], tuple[Steps, Any]]]] = {
    "inputs": ("an input of the size", _inputs),
    "outputs": (f"{_OUTPUTS} outputs of the size", _outputs),
    "items": (f"{_ITEMS} items, six times the size together", _items),
    "calls": (f"{_STEPS} parallel steps over {_WIDTH} items", _calls),
}


def serve(told: Connection) -> None:
    """Serve until the process ends: a value of a size, or nothing at all."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(_value(int(request.match_info["size"])))

    async def hold(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def run() -> None:
        application = web.Application()
        application.router.add_post("/answered/{size}", answer)
        application.router.add_post("/held", hold)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        told.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await asyncio.Event().wait()

    asyncio.run(run())


async def measure(stack: Stack, steps: Steps, event: Any, runs: int, seconds: float) -> list[int]:
    """Start runs; return the worker's memory before and the most, in MiB, and the number of runs at work."""
    headers = {"X-API-Key": stack.key, "Content-Type": "application/json"}
    worker = psutil.Process(stack.worker_pids[0])
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=60, trust_env=False) as client:
        document = {"name": "memory", "trigger": {"type": "webhook"}, "steps": steps}
        created = (await client.post("/api/workflows", json=document)).raise_for_status().json()
        url, body, places = created["webhook_url"], json.dumps(event), asyncio.Semaphore(_POSTING)

        async def post() -> None:
            async with places:
                (await client.post(url, content=body)).raise_for_status()

        before = most = worker.memory_info().rss
        deadline = time.monotonic() + seconds
        posting = asyncio.gather(*(post() for _ in range(runs)))
        while time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            most = max(most, worker.memory_info().rss)
        await posting
        found = await client.get("/api/workflows/runs", params={"status": "running", "limit": 1})
    return [before // 2**20, most // 2**20, found.json()["total"]]


def main(arguments: argparse.Namespace) -> None:
    """Print a line a kind."""
    print(f"{machine()}\n{arguments.runs} runs, values of {arguments.kibibytes} KiB, {arguments.seconds} s")
    print("each run has                                   MiB before   most   runs at work")
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    server = spawn.Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = here.recv()
    try:
        for kind in arguments.kinds:
            name, make = KINDS[kind]
            steps, event = make(url, arguments.kibibytes * 1024)
            with unlimited() as (runners, stack):
                runners.plain.run(stack.change_worker({}))
                measuring = measure(stack, steps, event, arguments.runs, arguments.seconds)
                before, most, at_work = runners.fast.run(measuring)
            print(f"{name:44} {before:12} {most:6} {at_work:14}", flush=True)
    finally:
        server.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--runs", type=int, default=512)
    parser.add_argument("--kibibytes", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=40)
    main(parser.parse_args())
