"""The attacked stack: a whole `vedette up` on a separate folder, and the attackers' tools."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import psutil
from aiohttp import web

from models.accounts.keys import ALL_SCOPES
from services.operator import administration
from tests.datasets import write_small_datasets
from tests.stacks import CLI, StackProcess, environment, eventually

RECEIVER = "127.0.0.2"
"""The one private address that webhook steps may reach."""
PASSWORD = "correct horse battery staple"
_JSON = {"Content-Type": "application/json"}
_CHILDREN = ("api", "worker")


@dataclass
class Account:
    """An account of the target: `key` has all scopes, and `session` is logged in by password."""

    email: str
    secret: str
    key: httpx.AsyncClient
    session: httpx.AsyncClient

    async def workflow(self, steps: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Create a workflow that a webhook starts."""
        document = {"name": "abuse", "trigger": {"type": "webhook"}, "steps": steps, **fields}
        answer = await self.key.post("/api/workflows", json=document)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def run(self, workflow: dict[str, Any], event: Any) -> dict[str, Any]:
        """Send an event and wait for the run to end."""
        path = f"/api/workflows/{workflow['id']}/run"
        answer = await self.key.post(f"{path}?wait=30", json={"input": event})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def dry_run(self, steps: list[dict[str, Any]], event: Any = None) -> httpx.Response:
        """Try steps in a dry run of a workflow made for it."""
        workflow = await self.workflow([])
        body = {"input": event, "steps": steps}
        return await self.key.post(f"/api/workflows/{workflow['id']}/test", json=body)


@dataclass
class Receiver:
    """A server that webhook steps may reach: it records each request and returns it as JSON.

    `/to/<url>` redirects there.
    """

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        headers = [(name, value) for name, value in request.headers.items()]
        seen = {"path": request.path, "headers": headers, "body": await request.text()}
        self.requests.append(seen)
        if request.path.startswith("/to/"):
            return web.Response(status=302, headers={"Location": request.path_qs.removeprefix("/to/")})
        return web.json_response(seen)


class Target:
    """A running stack.

    Attributes:
        full: whether attacks are long; the tests run short ones.
        stack: the processes.
        receiver: a server that webhook steps may reach.
        forbidden: the port of a listener on every loopback address except the receiver's.
        connections: the number of connections to that listener.
    """

    def __init__(self, stack: StackProcess, receiver: Receiver, exits: AsyncExitStack, *, full: bool) -> None:
        self.full = full
        self.stack = stack
        self.receiver = receiver
        self.forbidden = 0
        self.connections = 0
        self._exits = exits
        self._accounts: list[Account] = []
        self._used_folder: Path | None = None

    @property
    def url(self) -> str:
        """The address of the API."""
        return self.stack.url

    def times(self, full: int, brief: int) -> int:
        """Return the number of attempts."""
        return full if self.full else brief

    async def client(self, url: str = "", **headers: str) -> httpx.AsyncClient:
        """Return an HTTP client with these headers (`_` for `-`)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client = httpx.AsyncClient(base_url=url or self.url, headers=named, timeout=90, trust_env=False)
        return await self._exits.enter_async_context(client)

    async def account(self, number: int = 0) -> Account:
        """Return one of the accounts, made on first use."""
        while len(self._accounts) <= number:
            self._accounts.append(await self.new_account())
        return self._accounts[number]

    async def new_account(self) -> Account:
        """Return a new account with credits, a key and a session."""
        email, database = f"{uuid4().hex}@example.com", self.stack.record.database_url
        await administration.create_account(database, email, name=None, granted=1000, password=PASSWORD)
        key = await administration.create_key(
            database, email, name="abuse", scopes=sorted(ALL_SCOPES), days=None
        )
        http = await self.client()
        login = await http.post("/api/auth/login", json={"email": email, "password": PASSWORD})
        assert login.status_code == 200, login.text
        return Account(
            email,
            key.key,
            await self.client(Authorization=f"Bearer {key.key}"),
            await self.client(Authorization=f"Bearer {login.json()['token']}"),
        )

    async def used_folder(self) -> Path:
        """Return a folder that a stack has used and left in order, made on first use."""
        if self._used_folder is None:
            parent = Path(tempfile.mkdtemp(prefix="vedette-abuse-"))
            self._exits.callback(shutil.rmtree, parent)
            parent.chmod(0o711)
            folder = parent / "data"
            write_small_datasets(folder)
            stack = StackProcess(folder)
            await stack.ready()
            await stack.stop()
            self._used_folder = folder
        return self._used_folder

    async def exchange(self, *parts: bytes, seconds: float = 10) -> bytes:
        """Send bytes over a connection, then read until the server closes or the time is over."""
        reader, writer = await asyncio.open_connection(*self.address)
        answer = b""
        try:
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(seconds):
                    for part in parts:
                        writer.write(part)
                        await writer.drain()
                    while piece := await reader.read(65536):
                        answer += piece
        finally:
            writer.close()
        return answer

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the API."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None and parts.port is not None
        return parts.hostname, parts.port

    def resident_mib(self) -> dict[str, int]:
        """Return the memory of the API and the worker, with their child processes."""
        found: dict[str, int] = {}
        for name in _CHILDREN:
            process = psutil.Process(self.stack.child(name))
            # Without the processes of the pool, which have a limit of their own and start on first use.
            family = [process, *(one for one in process.children(recursive=True) if not _is_of_pool(one))]
            found[name] = sum(one.memory_info().rss for one in family) // 2**20
        return found

    @asynccontextmanager
    async def other_api(self, **names: str) -> AsyncGenerator[str]:
        """Run another API process on the same database, with other settings; yield its address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        async with (
            self._other("api", VEDETTE_PORT=str(port), **names) as process,
            httpx.AsyncClient(base_url=url, trust_env=False) as client,
        ):

            async def answers() -> bool:
                assert process.returncode is None, "the other API has ended"
                with suppress(httpx.TransportError):
                    return (await client.get("/healthz")).status_code == 200
                return False

            await eventually(answers, 30, "the other API answers")
            yield url

    @asynccontextmanager
    async def other_worker(self) -> AsyncGenerator[None]:
        """Run another worker process on the same database, for the block."""
        log = self.stack.data / "logs" / f"worker-{uuid4().hex[:8]}.log"
        with log.open("wb") as stream:
            async with self._other("worker", stream) as process:

                def is_ready() -> bool:
                    assert process.returncode is None, "the other worker has ended"
                    return b"worker_ready" in log.read_bytes()

                await eventually(is_ready, 30, "the other worker is ready")
                yield

    @asynccontextmanager
    async def _other(
        self, command: str, log: int | IO[bytes] = subprocess.DEVNULL, **names: str
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """Run another process of this stack, for the block."""
        record = self.stack.record
        given = {"DATABASE_URL": record.database_url, "TEMPORAL_ADDRESS": record.temporal_address, **names}
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(CLI), command, env=environment(self.stack.data, **given),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def _listen(self) -> None:
        """Listen on every address of this machine, and count the connections."""

        async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            writer.close()

        first = socket.create_server(("0.0.0.0", 0))
        self.forbidden = first.getsockname()[1]
        sockets = [first]
        # One port on all addresses, so that one URL per spelling is enough.
        with suppress(OSError):
            sockets.append(socket.create_server(("::1", self.forbidden), family=socket.AF_INET6))
        for one in sockets:
            await self._exits.enter_async_context(await asyncio.start_server(count, sock=one))


@asynccontextmanager
async def attacked(folder: Path, *, full: bool) -> AsyncGenerator[Target]:
    """Run a target on a folder, for the block. Its failed logins are not limited."""
    write_small_datasets(folder)
    names = {"VEDETTE_ALLOW_PRIVATE_NETWORKS": f"{RECEIVER}/32", "VEDETTE_LIMIT_LOGIN": "off"}
    stack = StackProcess(folder, **names)
    try:
        await stack.ready()
        async with AsyncExitStack() as exits:
            receiver = await exits.enter_async_context(_receiving())
            target = Target(stack, receiver, exits, full=full)
            await target._listen()
            yield target
    finally:
        await stack.stop()


@asynccontextmanager
async def _receiving() -> AsyncGenerator[Receiver]:
    receiver, application = Receiver(), web.Application()
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, RECEIVER, 0).start()
    receiver.url = f"http://{RECEIVER}:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()


def is_root() -> bool:
    """Return whether the stack is started as root."""
    return os.geteuid() == 0


def _is_of_pool(process: psutil.Process) -> bool:
    return any("pool_process" in word for word in process.cmdline())
