"""Memory of a worker that calls many endpoints at once, all with large bodies.

    python -m bench.memory [--calls 512] [--mebibytes 0.9] [--kept-ms 50] [--writers 4]

A process with all modules of a worker sends through the real clients to a server in another process. Each
output is kept until one of the writers, which write nothing, has had it for its time.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from ipaddress import ip_network
from multiprocessing.connection import Connection
from uuid import UUID

import orjson
import psutil
from aiohttp import web

import process
from bench.machine import machine
from execution.redaction import Redaction
from execution.webhook_step import Secrets, WebhookCall, send
from language.expressions import JSON
from language.steps import WebhookStep
from language.webhook_requests import RequestTemplates
from outbound.client import Outbound
from settings import Settings

_NOBODY = UUID(int=0)
# A worker's memory is that of all its modules.
import_module("worker")


def _records(size: int) -> bytes:
    record = {"id": 123456, "email": "someone@example.com", "active": True, "score": 0.5, "tags": ["a", "b"]}
    return orjson.dumps([record] * (size // len(orjson.dumps(record))))


def _compressed(size: int) -> bytes:
    return gzip.compress(_records(size), 1)


# A name, the body of a given size, and its encoding.
BODIES: dict[str, Callable[[int], bytes]] = {
    "one long string": lambda size: orjson.dumps("x" * size),
    "records": _records,
    "records, chunked": _records,
    "records, gzip": _compressed,
    "small objects": lambda size: b"[" + b'{"a":1},' * (size // 8) + b"{}]",
}


@dataclass(frozen=True)
class Load:
    """The task of the measured process."""

    url: str
    calls: int
    writers: int
    kept_seconds: float


def serve(size: int, told: Connection) -> None:
    """Serve one body a path until the process ends."""
    bodies = {name: body(size) for name, body in BODIES.items()}

    async def answer(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        headers = {"Content-Type": "application/json"}
        if "gzip" in name:
            headers["Content-Encoding"] = "gzip"
        if "chunked" not in name:
            return web.Response(body=bodies[name], headers=headers)
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(bodies[name])
        return response

    async def run() -> None:
        application = web.Application()
        application.router.add_get("/{name}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        told.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


async def call_all(load: Load) -> list[str]:
    """Do all calls at once; return the codes of those that failed."""
    config = {"url": load.url, "method": "GET"}
    step = WebhookStep.model_validate({"id": "call", "type": "webhook", "config": config})
    templates, secrets = RequestTemplates(step.config), Secrets({}, Redaction([]))
    writers = asyncio.Semaphore(load.writers)
    settings = Settings(allow_private_networks=(ip_network("127.0.0.0/8"),))

    async def depth() -> int:
        return 1

    async def keep(_redaction: Redaction, value: JSON, _size: int) -> JSON:
        return value

    async def call(outbound: Outbound, number: int) -> str | None:
        with outbound.memory.reservation() as room:
            asked = WebhookCall(str(number), _NOBODY, step, templates, {}, secrets)
            outcome = await send(outbound, asked, room, depth, keep)
            async with writers:
                await asyncio.sleep(load.kept_seconds)
        return outcome.error.code if outcome.error else None

    async with Outbound(settings, max_calls=2 * load.calls) as outbound:
        codes = await asyncio.gather(*(call(outbound, number) for number in range(load.calls)))
    return [code for code in codes if code]


def measure(load: Load, told: Connection) -> None:
    """Do the calls, and send the seconds, the memory before, and the most memory, in MiB."""
    process.freeze_gc()
    before = psutil.Process().memory_info().rss / 2**20
    started = time.perf_counter()
    failed = asyncio.run(call_all(load))
    took = time.perf_counter() - started
    told.send((took, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, failed))


def main(arguments: argparse.Namespace) -> None:
    """Print a line a kind of body."""
    print(f"{machine()}\n{arguments.calls} calls, {arguments.mebibytes} MiB each")
    print("                       failed  seconds   MiB before   most")
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    server = spawn.Process(target=serve, args=(int(arguments.mebibytes * 2**20), there), daemon=True)
    server.start()
    port = here.recv()
    try:
        for name in BODIES:
            url = f"http://127.0.0.1:{port}/{name}".replace(" ", "%20")
            load = Load(url, arguments.calls, arguments.writers, arguments.kept_ms / 1000)
            measured = spawn.Process(target=measure, args=(load, there), daemon=True)
            measured.start()
            took, before, most, failed = here.recv()
            measured.join()
            print(f"{name:22} {len(failed):6}  {took:7.1f}   {before:10.0f} {most:6.0f}  {set(failed) or ''}")
    finally:
        server.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=512)
    parser.add_argument("--mebibytes", type=float, default=0.9)
    parser.add_argument("--kept-ms", type=float, default=50)
    parser.add_argument("--writers", type=int, default=4)
    main(parser.parse_args())
