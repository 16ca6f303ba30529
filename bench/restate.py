"""A Restate server and a Node process with its services, installed by `npm` into a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import httpx
import psutil

from bench.stack import Runners
from embedded.listener import listen
from embedded.process import Child, ChildSetup

PACKAGES = ("@restatedev/restate-server@1.7.12", "@restatedev/restate-sdk@1.17.2")
SERVICE = Path(__file__).with_name("restate_service.mjs")
_READY_SECONDS = 60


class Restate:
    """Both processes, on a folder with the packages. Its data is as durable as by default."""

    def __init__(self, folder: Path, echo: str, services: int) -> None:
        self.port, self._admin, node = _free_ports(3)
        # Nothing but loopback: no proxy, no telemetry.
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()} | {
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self._admin}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.port}",
            "RESTATE_LOGGING": "ERROR",
            "NODE_ENV": "production",
        }
        [program] = folder.glob("node_modules/@restatedev/restate-server-*/bin/restate-server")
        server = [str(program), "--no-logo", "--node-name", "bench", "--base-dir", str(folder / "data")]
        service = ["node", str(shutil.copy(SERVICE, folder)), echo, str(services)]
        self._server = Child(
            "restate", server, ChildSetup(environment=environment), log=folder / "server.log"
        )
        self._service = Child(
            "service", service, ChildSetup(environment=environment), log=folder / "service.log"
        )

    async def start(self) -> None:
        """Start both, and register the services at the server."""
        await asyncio.gather(self._server.start(), self._service.start())
        deadline, lines = time.monotonic() + _READY_SECONDS, list[str]()
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            while True:
                lines += self._service.new_lines()
                with contextlib.suppress(httpx.TransportError, IndexError):
                    port, self._counter = map(int, lines[0].split())
                    deployment = {"uri": f"http://127.0.0.1:{port}"}
                    answer = await client.post(f"http://127.0.0.1:{self._admin}/deployments", json=deployment)
                    if answer.status_code == 201:
                        return
                if time.monotonic() > deadline:
                    raise SystemExit(f"bench: Restate is not ready: {self._server.log_tail()} {lines}")
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """Stop both processes."""
        await asyncio.gather(self._service.stop(2), self._server.stop(5))

    async def counter(self) -> Callable[[], Awaitable[int]]:
        """Return a function that counts completed runs since the start; call it in the running loop."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._counter)

        async def completed() -> int:
            writer.write(b"?")
            return int(await reader.readline())

        return completed

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of both so far."""
        return sum(sum(process.cpu_times()[:2]) for process in self._processes())

    def resident_mib(self) -> float:
        """Return the memory of both."""
        return sum(process.memory_info().rss for process in self._processes()) / 2**20

    def _processes(self) -> list[psutil.Process]:
        return [psutil.Process(child.pid) for child in (self._server, self._service)]


@contextlib.contextmanager
def running(runners: Runners, echo: str, services: int) -> Generator[Restate]:
    """Install and run it for the block; its `services` call the URL `echo`."""
    with tempfile.TemporaryDirectory(prefix="restate-bench-") as folder:
        # No install scripts: one of them reports the installation.
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder]
        done = subprocess.run(["npm", "install", *options, *PACKAGES], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"bench: npm cannot install Restate:\n{done.stderr}")
        restate = Restate(Path(folder), echo, services)
        try:
            runners.plain.run(restate.start())
            yield restate
        finally:
            runners.plain.run(restate.stop())


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as exits:
        sockets = [exits.enter_context(listen("127.0.0.1", 0)) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]
