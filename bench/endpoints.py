"""The base cost of every request: authentication, limiter, credits, login.

    python -m bench.endpoints [--seconds 5] [--clients 32]

Starts an embedded Postgres and one API process of its own; the load generator shares the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import platform
import socket
import sys
import tempfile
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Annotated
from uuid import UUID

import httpx
import psutil
import uvicorn
import uvloop
from fastapi import APIRouter, Request

from api.app import create_app
from api.deps import Caller, require_scope
from api.http.limits import limit_requests
from api.http.protocol import BoundedHttp
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from api.server import ApiServer
from bench import load
from database import Database
from embedded.postgres import Postgres
from embedded.report import Report
from migrations.upgrade import upgrade
from models.accounts import accounts, passwords
from models.accounts.accounts import NewAccount
from models.credits import credits
from models.credits.credits import Booking
from settings import Rate, Settings

PASSWORD = "correct horse battery staple"


class Nothing(Body):
    """A small body."""

    ip: str


router = APIRouter(prefix="/api/bench", route_class=StrictRoute)


@router.post("/open")
async def without_credential(body: Nothing) -> Nothing:
    return body


@router.post("/authenticated")
async def authenticated(body: Nothing, caller: Annotated[Caller, require_scope("lookups")]) -> Nothing:
    return body


@router.post("/limited", dependencies=[limit_requests("ip")])
async def with_limiter(body: Nothing, caller: Annotated[Caller, require_scope("lookups")]) -> Nothing:
    return body


@router.post("/blocked", dependencies=[limit_requests("breaches")])
async def over_limit(body: Nothing, caller: Annotated[Caller, require_scope("lookups")]) -> Nothing:
    return body


@router.get("/plain")
async def plain(request: Request) -> Nothing:
    return Nothing(ip="")


def serve(settings: Settings, listener: socket.socket) -> None:
    """Run one API process like `vedette api`."""
    import logs

    logs.configure("api", level=30)
    app = create_app(settings)
    app.include_router(router)
    config = uvicorn.Config(
        app, http=BoundedHttp, ws="none", lifespan="on", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, backlog=2048,
    )  # fmt: skip
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ApiServer(config, app).serve(sockets=[listener]))


async def measure_http(
    port: int, key: str, email: str, clients: int, seconds: float, process: psutil.Process
) -> None:
    """Print the requests per second of one process."""
    credential = {"Authorization": f"Bearer {key}"}
    body = b'{"ip": "8.8.8.8"}'
    cases = {
        "POST, no credential": ("POST", "/api/bench/open", {}, body),
        "POST, key": ("POST", "/api/bench/authenticated", credential, body),
        "POST, key and limiter": ("POST", "/api/bench/limited", credential, body),
        "POST, key, over the limit": ("POST", "/api/bench/blocked", credential, body),
        "GET, no credential": ("GET", "/api/bench/plain", {}, b""),
        "GET /healthz": ("GET", "/healthz", {}, b""),
    }
    for count in (1, clients):
        print(f"\none API process, {count} client(s)")
        for name, (method, path, headers, content) in cases.items():
            request = load.request_bytes(method, path, headers, content)
            await load.run(load.Address(port), request, clients=count, seconds=0.5)
            before = sum(process.cpu_times()[:2])
            result = await load.run(load.Address(port), request, clients=count, seconds=seconds)
            cpu = (sum(process.cpu_times()[:2]) - before) / max(1, len(result.latencies)) * 1e6
            print(f"  {name:<26} {result}   {cpu:5.0f} µs CPU each")
    login = load.request_bytes(
        "POST",
        "/api/auth/login",
        {},
        b'{"email": "%s", "password": "%s"}' % (email.encode(), PASSWORD.encode()),
    )
    for count in (1, 8):
        result = await load.run(load.Address(port), login, clients=count, seconds=seconds)
        print(f"  login, {count} client(s)         {result}")
    print(f"  memory of the API process  {process.memory_info().rss / 2**20:.0f} MiB")


async def answering(process: SpawnProcess, port: int) -> None:
    """Wait until the API answers."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        while True:
            if not process.is_alive():
                sys.exit("The API process ended; the lines above say why.")
            try:
                await client.get("/healthz", timeout=1)
                return
            except httpx.TimeoutException:
                continue


async def measure_credits(database: Database, owners: list[UUID], workers: int, seconds: float) -> float:
    """Return the charges per second over these accounts, from this many connections."""
    deadline, done = time.perf_counter() + seconds, 0

    async def work(number: int) -> None:
        nonlocal done
        turn = 0
        async with database.connection() as connection:
            while time.perf_counter() < deadline:
                owner = owners[(number + turn * workers) % len(owners)]
                await credits.charge(
                    connection, Booking(owner, 1, f"bench/{number}/{time.time_ns()}", "bench")
                )
                turn, done = turn + 1, done + 1

    await asyncio.gather(*(work(number) for number in range(workers)))
    return done / seconds


def main(arguments: argparse.Namespace) -> None:
    """Measure all."""
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.machine()}")
    with tempfile.TemporaryDirectory(prefix="vedette-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        postgres = Postgres(folder, folder / "logs" / "postgres.log", Report())
        # uvloop cannot start a process as another user, which Postgres needs when we are root.
        with asyncio.Runner() as plain, asyncio.Runner(loop_factory=uvloop.new_event_loop) as fast:
            plain.run(postgres.start())
            try:
                upgrade(postgres.url)
                fast.run(_measure(arguments, folder, postgres.url))
            finally:
                plain.run(postgres.stop())


async def _measure(arguments: argparse.Namespace, folder: Path, url: str) -> None:
    database = Database(url, name="bench", size=32)
    await database.open()
    async with database.connection() as connection:
        first = await accounts.create_first_account(connection)
    assert first is not None
    password_hash = await passwords.hash_password(PASSWORD)
    async with database.transaction() as connection:
        owners = [
            (
                await accounts.create_account(
                    connection, NewAccount(f"a{n}@example.com", password_hash, credits=10**9)
                )
            ).id
            for n in range(64)
        ]
    settings = Settings(
        DATABASE_URL=url,
        data=folder,
        limit_ip=Rate(10**8, 60),
        limit_breaches=Rate(1, 3600),
        limit_login=Rate(10**6, 60),
        secret_key="b" * 40,
    )  # pyright: ignore[reportCallIssue]
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(settings, listener), daemon=True
    )
    process.start()
    try:
        await answering(process, listener.getsockname()[1])
        await measure_http(
            listener.getsockname()[1], first.api_key, "a0@example.com", arguments.clients, arguments.seconds,
            psutil.Process(process.pid),
        )  # fmt: skip
    finally:
        process.terminate()
        await asyncio.to_thread(process.join, 10)
    print("\ncredit debits (committed)")
    for label, subset in (("one account", owners[:1]), ("64 accounts", owners)):
        for workers in (1, 8, 32):
            rate = await measure_credits(database, subset, workers, arguments.seconds)
            print(f"  {label}, {workers:>2} connection(s)   {rate:8.0f}/s")
    await database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=32)
    main(parser.parse_args())
