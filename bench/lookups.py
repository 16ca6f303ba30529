"""Lookups: local data, sources that answer, hang, are unreachable or limit; and all that through the API.

    python -m bench.lookups [--seconds 3] [--clients 32]

Of the API it is compared with a bare FastAPI application that repeats what it is sent, in the same run.
Breach checks whose sources limit at random are held against what these sources know: whoever is told "none"
although a breach is known, or one who could know was silent, was told so falsely.

Starts an embedded Postgres, local HTTP sources and an API process of its own; the load generator shares the
machine. The data is that of `vedette data fetch`; lists that cannot be had here are made up, in their real
sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import uvicorn
import uvloop
from aiohttp import web
from fastapi import FastAPI
from pydantic import BaseModel

from bench import load
from bench.endpoints import answering, serve
from bench.limiting import check_nones, serving_with
from bench.machine import machine
from database import Database
from embedded.postgres import Postgres
from embedded.report import Report
from migrations.upgrade import upgrade
from models.accounts import accounts
from outbound.client import Outbound
from providers import dataset_refresh
from providers.datasets import installed, ranges
from providers.ip.kind import KIND
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.sources.base import Context, Fields, LocalSource, Query, RemoteSource, RemoteSpec, json_answer
from providers.sources.kind import Kind
from sealing import Keyring, root_keys
from settings import Settings

SOURCES, DELAY_SECONDS, DEADLINE_SECONDS = 8, 0.05, 1.0
# The addresses of the warm-up.
_WARMING = 10_000
FIELDS = [f"security.is_{name}" for name in ("vpn", "proxy", "tor", "hosting", "relay", "mobile", "abuse")]
FAKE = {"security.is_vpn": False, "security.is_tor": False}
GREYNOISE = {"noise": False, "riot": True, "classification": "benign", "name": "Cloudflare"}
# The number of ranges in the real lists, by dataset and table; with a label that the source can read.
MADE_UP = {
    "tor": {"exits": (1_300, "exit")},
    "x4bnet": {"vpn": (11_000, "vpn"), "datacenter": (31_000, "datacenter")},
    "applerelay": {"egress": (60_000, "relay")},
    "cloud": {"ranges": (12_000, "aws")},
    "spamhaus": {"drop": (1_800, "drop")},
}


def resident() -> float:
    """Return the memory of this process, in MiB."""
    return psutil.Process().memory_info().rss / 2**20


def addresses(count: int, seed: int = 1) -> list[str]:
    """Return public addresses, nine in ten of them IPv4."""
    chance = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        address: IPv4Address | IPv6Address = IPv4Address(chance.getrandbits(32))
        if chance.random() < 0.1:
            address = IPv6Address((0x2A00 << 112) | chance.getrandbits(112))
        if address.is_global:
            found.append(str(address))
    return found


def make_up(data: Path, name: str) -> None:
    """Install ranges spread evenly over the IPv4 addresses, in place of an unavailable list."""
    folder = installed.folder(data)
    files: dict[str, Path] = {}
    for role, (count, label) in MADE_UP[name].items():
        step = (223 << 24) // count
        files[role] = folder / f"{name}-{role}.new"
        ranges.write(files[role], list(_spread(count, step, label)))
    installed.install(data, name, files, installed.Provenance(source="made up", version="-", licence="-"))


def _spread(count: int, step: int, label: str) -> Iterator[ranges.Range]:
    for n in range(count):
        start = (1 << 24) + n * step
        yield ranges.Range(start.to_bytes(4), (start + 255).to_bytes(4), label)


async def fetch_data(data: Path) -> None:
    """Fetch all data, and print its origin."""
    print("data:")
    settings = Settings.model_validate({"data": data})
    for result in await dataset_refresh.fetch(settings, if_missing=True, report=lambda _: None):
        if result.version is None and result.name in MADE_UP:
            make_up(data, result.name)
            print(f"  {result.name}: made up")
        else:
            print(f"  {result.name}: {result.version} {result.detail}")


async def rate(call: Callable[[str], Awaitable[Any]], queries: Sequence[str], seconds: float) -> float:
    """Return the calls per second, one after the other."""
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        await call(queries[done % len(queries)])
        done += 1
    return done / (time.perf_counter() - started)


async def latencies(lookups: Lookups, queries: Sequence[str]) -> list[float]:
    """Return the duration of each, in ms, one after the other."""
    took: list[float] = []
    for query in queries:
        started = time.perf_counter()
        await lookups.lookup("ip", query)
        took.append((time.perf_counter() - started) * 1000)
    return took


def told(took: Sequence[float]) -> str:
    ordered = sorted(took)
    return f"p50 {statistics.median(ordered):7.2f} ms   p99 {ordered[int(len(ordered) * 0.99)]:7.2f} ms"


async def fetch(query: Query, context: Context) -> Any:
    return json_answer(await context.client.get(f"{context.base_url}/{query.text}", timeout=context.timeout))


def parse(raw: Any) -> Fields:
    return dict(raw)


def remote_kind(names: Sequence[str], timeout: float = 3) -> Kind:
    """Return IP lookups with the local data and `names` as sources, with a timeout of `timeout` seconds."""
    local = tuple(source for source in KIND.sources if isinstance(source, LocalSource))
    specs = [
        RemoteSpec(
            name=name, kind="ip", fields=frozenset(FIELDS), licence="-", attribution="-", timeout=timeout,
            ttl=3600, negative_ttl=3600,
        )
        for name in names
    ]  # fmt: skip
    return replace(KIND, sources=(*local, *(RemoteSource(spec, fetch, parse) for spec in specs)))


@asynccontextmanager
async def serving(delay: float | None, told: dict[str, Any] = FAKE) -> AsyncGenerator[str]:
    """Run a source that answers with `told` after `delay` seconds, or never."""
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if delay is None:
            await ended.wait()
        else:
            await asyncio.sleep(delay)
        return web.json_response(told)

    async with serving_with(answer) as url:
        yield url
        ended.set()


class Bench:
    """A Postgres, and lookups over it."""

    def __init__(self, data: Path, database: Database, stack: AsyncExitStack) -> None:
        self.data = data
        self.database = database
        self.stack = stack
        self.keyring = Keyring(root_keys(Settings(data=data), sealed_data_exists=False))

    async def lookups(self, kind: Kind, **settings: Any) -> Lookups:
        """Return lookups with empty caches and closed breakers."""
        async with self.database.connection() as connection:
            await connection.execute("truncate lookup_answers, provider_states")
        configured = Settings.model_validate({"data": self.data, **settings})
        outbound = await self.stack.enter_async_context(Outbound(configured))
        lookups = Lookups(configured, self.database, self.keyring, outbound, kinds={kind.name: kind})
        await lookups.open()
        self.stack.push_async_callback(lookups.close)
        return lookups

    async def offline(self, seconds: float) -> None:
        """Ask the data on this machine alone."""
        before = resident()
        lookups = await self.lookups(KIND, local_only=True)
        queries = addresses(50_000)
        busy = time.process_time()
        per_second = await rate(lambda query: lookups.lookup("ip", query), queries, seconds)
        cpu = (time.process_time() - busy) / seconds / per_second * 1000
        print(f"local data alone      {per_second:8.0f}/s   {cpu:.3f} ms of CPU a lookup")
        print(f"memory, all data loaded and used: {resident():.0f} MiB, {resident() - before:.0f} of it here")

    async def answering(self) -> None:
        """Ask sources that answer after 50 ms, once all of them, once with one that hangs."""
        async with self._sources([DELAY_SECONDS] * SOURCES) as lookups:
            print(f"{SOURCES} sources at 50 ms       {told(await latencies(lookups, addresses(100, 2)))}")
            print(f"  the same again, kept  {told(await latencies(lookups, addresses(100, 2)))}")
        async with self._sources([*[DELAY_SECONDS] * (SOURCES - 1), None]) as lookups:
            took = await latencies(lookups, addresses(6, 7))
            print("one of them hangs, lookup by lookup: " + " ".join(f"{ms:.0f}" for ms in took) + " ms")
            print(f"  after that            {told(await latencies(lookups, addresses(100, 9)))}")

    async def hanging(self) -> None:
        """Ask, with a deadline, sources of which one hangs for longer than that."""
        async with self._sources([*[DELAY_SECONDS] * (SOURCES - 1), None], timeout=30) as lookups:
            started = time.perf_counter()
            result = await lookups.lookup("ip", "8.8.8.8", LookupOptions(deadline=DEADLINE_SECONDS))
            took = time.perf_counter() - started
        statuses = Counter(row["status"] for row in result.reports() if row["name"].startswith("fake"))
        print(
            f"one of them hangs, deadline {DEADLINE_SECONDS:g} s: answered in {took:.3f} s, {dict(statuses)}"
        )

    @asynccontextmanager
    async def _sources(self, delays: Sequence[float | None], timeout: float = 3) -> AsyncGenerator[Lookups]:
        names = [f"fake{n}" for n in range(len(delays))]
        async with AsyncExitStack() as servers:
            urls = [await servers.enter_async_context(serving(delay)) for delay in delays]
            providers = {name: {"base_url": url} for name, url in zip(names, urls, strict=True)}
            yield await self.lookups(remote_kind(names, timeout), providers=providers)

    async def closed(self) -> None:
        """Ask as installed, on a network that drops everything: 192.0.2.0/24 is unassigned (RFC 5737)."""
        nowhere = {"base_url": "http://192.0.2.1:8080"}
        providers = {"ptr": {"base_url": "dns://192.0.2.1:53"}, "rdap": nowhere, "greynoise": nowhere}
        lookups = await self.lookups(KIND, providers=providers)
        took = await latencies(lookups, addresses(20, 3))
        print("no way out, lookup by lookup: " + " ".join(f"{ms:.0f}" for ms in took) + " ms")
        print(f"  after that          {told(await latencies(lookups, addresses(500, 4)))}")


class Requests:
    """Addresses looked up over HTTP, each connection another one, by an API process of its own."""

    def __init__(self, url: str, key: str, bench: Bench, seconds: float, clients: int) -> None:
        self._url = url
        self._credential = {"Authorization": f"Bearer {key}"}
        self._bench = bench
        self._seconds = seconds
        self._clients = clients

    async def measure(self) -> None:
        """Measure in turns with the echo: few addresses repeatedly, ever new ones, and cached answers."""
        few, many = addresses(self._clients, 11), addresses(200_000, 12)
        off = {one.spec.name: {"enabled": False} for one in KIND.sources if isinstance(one, RemoteSource)}
        async with serving(0, GREYNOISE) as url:
            kept = {"providers": {**off, "greynoise": {"base_url": url}}}
            for what, asked, changes in (
                ("the same again", few, {"local_only": True}),
                ("ever new ones", many, {"local_only": True}),
                ("with a kept answer", few, kept),
            ):
                settings = Settings.model_validate(
                    {"database_url": self._url, "data": self._bench.data, "limit_ip": None, **changes}
                )
                floor = await self._run("a bare echo", "/echo", few, serve_echo)
                rate = await self._run(what, "/api/agent/ip", asked, partial(serve, settings))
                print(f"  {rate / floor:.2f} of the echo")

    async def _run(
        self, what: str, path: str, asked: Sequence[str], target: Callable[[socket.socket], None]
    ) -> float:
        listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        port = listener.getsockname()[1]
        started = time.perf_counter()
        process = multiprocessing.get_context("spawn").Process(target=target, args=(listener,), daemon=True)
        process.start()
        try:
            await answering(process, port)
            ready = time.perf_counter() - started
            await self._load(port, path, asked[:_WARMING], 0.5)
            seen = psutil.Process(process.pid)
            before = sum(seen.cpu_times()[:2])
            result = await self._load(port, path, asked[_WARMING:] or asked, self._seconds)
            cpu = (sum(seen.cpu_times()[:2]) - before) / len(result.latencies) * 1000
            memory = seen.memory_info().rss / 2**20
            print(f"API, {self._clients} clients, {what:18}: {result}   {cpu:.2f} ms of CPU each")
            print(f"  its process: {ready:.2f} s to the first answer, {memory:.0f} MiB after all this")
            return result.rate
        finally:
            process.terminate()
            await asyncio.to_thread(process.join, 10)

    async def _load(self, port: int, path: str, asked: Sequence[str], seconds: float) -> load.Result:
        requests = [
            load.request_bytes("POST", path, self._credential, b'{"ip": "%s"}' % address.encode())
            for address in asked
        ]
        return await load.run(load.Address(port), cycle(requests), clients=self._clients, seconds=seconds)


class Echo(BaseModel):
    """The body that the echo repeats."""

    ip: str


def serve_echo(listener: socket.socket) -> None:
    """Run a minimal FastAPI application."""
    app = FastAPI()

    @app.post("/echo")
    async def echo(body: Echo) -> Echo:  # pyright: ignore[reportUnusedFunction]
        return body

    @app.get("/healthz")
    async def health() -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return {}

    config = uvicorn.Config(app, log_config=None, access_log=False, backlog=2048)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[listener]))


async def measure(data: Path, url: str, seconds: float, clients: int) -> None:
    async with AsyncExitStack() as stack:
        database = Database(url, name="bench")
        await database.open()
        stack.push_async_callback(database.close)
        bench = Bench(data, database, stack)
        await bench.offline(seconds)
        await bench.answering()
        await bench.hanging()
        await bench.closed()
        async with database.connection() as connection:
            account = await accounts.create_first_account(connection)
        assert account is not None
        await check_nones(bench.lookups, 10_000)
        await Requests(url, account.api_key, bench, seconds, clients).measure()


def main(seconds: float, clients: int) -> None:
    print(machine())
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import providers.lookup.lookup"], check=True)
    print(f"a process that imports all sources: {time.perf_counter() - started:.2f} s")
    with tempfile.TemporaryDirectory(prefix="vedette-bench-") as folder:
        data = Path(folder)
        data.chmod(0o711)
        postgres = Postgres(data, data / "logs" / "postgres.log", Report())
        # uvloop cannot start a process as another user, which Postgres needs when we are root.
        with asyncio.Runner() as plain, asyncio.Runner(loop_factory=uvloop.new_event_loop) as fast:
            plain.run(fetch_data(data))
            plain.run(postgres.start())
            try:
                upgrade(postgres.url)
                fast.run(measure(data, postgres.url, seconds, clients))
            finally:
                plain.run(postgres.stop())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--clients", type=int, default=32)
    arguments = parser.parse_args()
    main(arguments.seconds, arguments.clients)
