"""The parts of a stack, each a process as `vedette up` runs them, over a temporary data folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
import uvloop

import settings
from bench.load import Address
from embedded.first_account import ensure_first_account
from embedded.listener import listen
from embedded.postgres import Postgres
from embedded.process import Child, ChildSetup
from embedded.report import Report
from embedded.temporal import Temporal
from migrations.upgrade import upgrade

_READY_SECONDS = 60
_READY = ("worker_ready", "waits_for_temporal")
UNLIMITED = {
    "VEDETTE_LOCAL_ONLY": "1",
    "VEDETTE_SIGNUP": "open",
    "VEDETTE_LIMIT_LOGIN": "off",
    "VEDETTE_LIMIT_INGEST": "off",
    "VEDETTE_MAX_INGEST_WAITS": "1000",
    "VEDETTE_MAX_WORKFLOWS": "100000",
}
"""Settings without limits."""


class Stack:
    """Postgres, Temporal, an API process, a server for webhooks to call, and any number of workers."""

    def __init__(self, data: Path, environ: Mapping[str, str], api: str = "cli") -> None:
        """Prepare; `api`: the module that runs as the API process."""
        self._data = data
        self._api_module = api
        self._listener = listen("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self.address = Address(self.port)
        self._environ = {
            **os.environ,
            "VEDETTE_DATA": str(data),
            "VEDETTE_PORT": str(self.port),
            "VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.1/32",
            **environ,
        }
        self._postgres = Postgres(data, data / "logs" / "postgres.log", Report())
        self._temporal = Temporal(data, data / "logs" / "temporal.log", Report())
        self._echo = self._child("echo", "bench.echo")
        self._apis: list[Child] = []
        self._workers: list[Child] = []
        self.key = ""
        self.echo = ""

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> settings.Settings:
        """The settings of the processes."""
        return settings.load(self._environ)

    async def start(self) -> None:
        """Start all but the worker."""
        await asyncio.gather(self._postgres.start(), self._temporal.start(), self._echo.start())
        self._environ |= {"DATABASE_URL": self._postgres.url, "TEMPORAL_ADDRESS": self._temporal.address}
        await asyncio.to_thread(upgrade, self._postgres.url)
        await ensure_first_account(self.settings, self._postgres.url)
        self.key = json.loads((self._data / "first-account.json").read_bytes())["api_key"]
        await self.change_apis(1)
        self.echo = await echo_url(self._echo)

    async def change_apis(self, count: int) -> None:
        """Replace the API processes by this many; one at least is ready then."""
        await asyncio.gather(*(api.stop(10) for api in self._apis))
        self._apis = [
            Child(
                f"api-{number}",
                [sys.executable, "-m", self._api_module, "api"],
                ChildSetup(environment=self._environ, stdin=self._listener),
                log=self._data / "logs" / f"api-{number}.log",
            )
            for number in range(count)
        ]
        await asyncio.gather(*(api.start() for api in self._apis))
        await self._until_ready("database", "temporal")

    async def change_worker(self, changes: Mapping[str, int | bool], count: int = 1, **environ: str) -> None:
        """Replace the workers by this many with these changes and settings."""
        await self._stop_workers()
        self._environ["BENCH_WORKER"] = json.dumps(changes)
        for number in range(count):
            self._workers.append(self._child(f"worker-{number}", "bench.worker", environ))
        await asyncio.gather(*(worker.start() for worker in self._workers))
        await self._until_workers_are_ready(self._workers)

    async def add_worker(self, **environ: str) -> None:
        """Start one more worker, with these settings, and wait until it is ready."""
        worker = self._child(f"worker-{len(self._workers)}", "bench.worker", environ)
        self._workers.append(worker)
        await worker.start()
        await self._until_workers_are_ready([worker])

    async def stop_worker(self) -> None:
        """Stop the oldest worker in an orderly way."""
        await self._workers.pop(0).stop(30)

    async def kill_worker(self) -> None:
        """Kill a worker; return when it is gone."""
        await _kill(self._workers.pop())

    @property
    def worker_pids(self) -> list[int]:
        """The processes of the workers, in the order of their start."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    @property
    def api_pids(self) -> list[int]:
        """The API processes."""
        return [api.pid for api in self._apis if api.pid is not None]

    @property
    def temporal_pid(self) -> int | None:
        """The process of Temporal, while it runs."""
        return self._temporal.child.pid

    async def kill_temporal(self) -> None:
        """Kill Temporal."""
        await _kill(self._temporal.child)

    async def start_temporal(self) -> None:
        """Start Temporal again, at its address."""
        await self._temporal.start()

    async def kill_postgres(self) -> None:
        """Kill Postgres."""
        await _kill(self._postgres.child)

    async def start_postgres(self) -> None:
        """Start Postgres again, at its address."""
        await self._postgres.start()

    def postgres_log(self) -> str:
        """Return the log of Postgres so far."""
        return self._postgres.child.log.read_text(errors="replace")

    def worker_logs(self) -> str:
        """Return the logs of the workers so far."""
        logs = sorted((self._data / "logs").glob("worker*.log"))
        return "".join(log.read_text(errors="replace") for log in logs)

    async def stop(self) -> None:
        """Stop all started processes."""
        await self._stop_workers()
        for child in (*self._apis, self._echo):
            await child.stop(10)
        if self._temporal.started:
            await self._temporal.stop()
        if self._postgres.started:
            await self._postgres.stop()
        self._listener.close()

    def cpu_seconds(self) -> dict[str, float]:
        """Return CPU seconds used so far by part, ended children included; `load` is ours and the echo's."""
        used = {name: sum_cpu(processes) for name, processes in self._processes().items()}
        return used | {"load": used["load"] + time.process_time()}

    def resident_mib(self) -> dict[str, int]:
        """Return memory by part. Postgres shares pages: its sum counts them more than once."""
        return {
            name: sum(map(_resident, processes)) // 2**20 for name, processes in self._processes().items()
        }

    def _processes(self) -> dict[str, list[psutil.Process]]:
        children = {
            "api": self._apis,
            "worker": self._workers,
            "temporal": [self._temporal.child],
            "postgres": [self._postgres.child],
            "load": [self._echo],
        }
        found: dict[str, list[psutil.Process]] = {name: [] for name in children}
        for name, child in ((name, child) for name, several in children.items() for child in several):
            if child.pid is None:
                raise SystemExit(f"bench: the part {name} has ended; the end of its log:\n{child.log_tail()}")
            found[name] += with_children(child.pid)
        return found

    async def _stop_workers(self) -> None:
        await asyncio.gather(*(worker.stop(30) for worker in self._workers))
        self._workers = []

    async def _until_workers_are_ready(self, workers: Sequence[Child]) -> None:
        """Wait until each of these logs that it is ready, because `/readyz` needs only one.

        Without Temporal a worker is ready for all work that shifts carry.
        """
        deadline, starting = time.monotonic() + _READY_SECONDS, list(workers)
        while starting:
            starting = [
                one
                for one in starting
                if not any(word in line for line in one.new_lines() for word in _READY)
            ]
            for worker in starting:
                if worker.pid is None or time.monotonic() > deadline:
                    raise SystemExit(f"bench: {worker.name} is not ready:\n{worker.log_tail()}")
            await asyncio.sleep(0.05)

    async def _until_ready(self, *parts: str) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as client:
            while time.monotonic() < deadline:
                with contextlib.suppress(httpx.TransportError):
                    checks = (await client.get("/readyz")).json()["checks"]
                    if all(checks[part] == "ok" for part in parts):
                        return
                for api in self._apis:
                    if api.pid is None:
                        raise SystemExit(f"bench: the API has ended:\n{api.log_tail()}")
                await asyncio.sleep(0.05)
        raise SystemExit(f"bench: not ready: {', '.join(parts)}")

    def _child(self, name: str, module: str, environ: Mapping[str, str] | None = None) -> Child:
        log = self._data / "logs" / f"{name}.log"
        environment = {**self._environ, **(environ or {})} if environ else self._environ
        return Child(name, [sys.executable, "-m", module], ChildSetup(environment=environment), log=log)


async def echo_url(echo: Child) -> str:
    """Return the address of `bench.echo`, once it serves."""
    while not (lines := echo.new_lines()):
        await asyncio.sleep(0.01)
    return f"http://127.0.0.1:{lines[0]}/"


def with_children(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def sum_cpu(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU seconds of processes and of their ended children."""
    return sum(map(_cpu, processes))


class Runners(NamedTuple):
    """Event loops: uvloop cannot start a process as another user, which Postgres needs under root."""

    plain: asyncio.Runner
    fast: asyncio.Runner

    @staticmethod
    @contextlib.contextmanager
    def made() -> Generator[Runners]:
        """Make both, for the block."""
        with asyncio.Runner() as plain, asyncio.Runner(loop_factory=uvloop.new_event_loop) as fast:
            yield Runners(plain, fast)


async def nothing(_data: Path) -> None:
    """Prepare nothing: for workflows without lookups."""


@contextlib.contextmanager
def running(
    runners: Runners,
    prepare: Callable[[Path], Coroutine[Any, Any, None]],
    api: str = "cli",
    **environ: str,
) -> Generator[Stack]:
    """Run a stack without a worker for the block.

    Args:
        runners: the plain one starts and stops it.
        prepare: prepares the data folder.
        api: the module that runs as the API process.
        environ: settings of its processes.
    """
    with tempfile.TemporaryDirectory(prefix="vedette-bench-") as name:
        data = Path(name)
        data.chmod(0o711)
        runners.plain.run(prepare(data))
        stack = Stack(data, environ, api)
        try:
            runners.plain.run(stack.start())
            yield stack
        finally:
            runners.plain.run(stack.stop())


@contextlib.contextmanager
def unlimited(
    prepare: Callable[[Path], Coroutine[Any, Any, None]] = nothing,
) -> Generator[tuple[Runners, Stack]]:
    """Run a stack without a worker and without limits; yield it with its event loops."""
    with Runners.made() as runners, running(runners, prepare, **UNLIMITED) as stack:
        yield runners, stack


async def _kill(child: Child) -> None:
    """Kill a process; return when it is gone."""
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    while child.pid is not None:
        await asyncio.sleep(0.01)


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.memory_info().rss
    return 0


def _cpu(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        used = process.cpu_times()
        return used.user + used.system + used.children_user + used.children_system
    return 0.0
