"""Whole stacks for tests: the real `vedette up`, on a random port and over a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from embedded import folder
from embedded.folder import RunningStack
from embedded.process import bound_to_parent, command_line
from providers.datasets.downloads import Publisher
from providers.datasets.lists import Lists
from providers.registry import DATASETS
from settings import ExitCode
from tests import commands

ROOT = Path(__file__).resolve().parents[1]
CLI = ROOT / "cli" / "__main__.py"


async def eventually(
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]],
    seconds: float = 10,
    what: str = "condition",
) -> None:
    """Poll a condition, ever less often, until it holds, failing after so many seconds."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while True:
        holds = condition()
        if isinstance(holds, Awaitable):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, 0.05)


def environment(data: Path, **names: str) -> dict[str, str]:
    """The environment of a `vedette` command over `data`, without the settings of whoever runs the tests.

    Nothing in it leaves this machine: lookups ask local sources only, publishers of data are nowhere.
    """
    ours = ("VEDETTE_", "DATABASE_URL", "TEMPORAL_", "SUPERVISOR_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    origins = [origin for dataset in DATASETS.values() for origin in dataset.origins]
    publishers = {origin.source.upper() for origin in origins if isinstance(origin, (Publisher, Lists))}
    return {
        **inherited,
        **{f"VEDETTE_PROVIDER_{name}_BASE_URL": "http://127.0.0.1:9" for name in publishers},
        "npm_config_offline": "true",
        "VEDETTE_LOCAL_ONLY": "1",
        "VEDETTE_DATA": str(data),
        "VEDETTE_PORT": "0",
        **names,
    }


def vedette(data: Path, *arguments: str, **names: str) -> subprocess.CompletedProcess[str]:
    """Run a `vedette` command to its end, as `commands.run` does it. One that serves is a `StackProcess`."""
    return commands.run(arguments, environment(data, **names))


def failed(done: subprocess.CompletedProcess[str], code: ExitCode, lines: int = 1) -> str:
    """Return what a start that failed said about it, having checked how it said it."""
    assert done.returncode == code, done.stdout + done.stderr
    said = done.stderr.strip()
    assert "Traceback" not in said + done.stdout
    assert len(said.splitlines()) == lines, said
    return said


def alive(children: dict[str, tuple[int, str]]) -> list[str]:
    """The names of those children in a stack's record that still run."""
    return [name for name, (pid, line) in children.items() if command_line(pid) == line]


def free_port() -> int:
    """A port that nobody listens on, and that the kernel gives to nobody who asks for any."""
    for port in random.sample(range(15_000, 32_000), 100):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there is no free port")


# Tests kill servers with SIGKILL; every other signal is a server's own fault.
_CRASH = re.compile(r"terminated by signal (?!9\b)|\bPANIC:")


def crashes(log: Path) -> list[str]:
    """The lines of a Postgres log that tell of a crash, also of one that somebody has retried."""
    if not log.exists():
        return []
    return [line for line in log.read_text(errors="replace").splitlines() if _CRASH.search(line)]


class StackProcess:
    """A `vedette up` that runs, and what it has said so far."""

    def __init__(self, data: Path, terminal: int | None = None, cli: Path = CLI, **names: str) -> None:
        self.data = data
        self.log = data.with_name(f"{data.name}-up-{time.monotonic_ns()}.log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(cli), "up"],
                env=environment(data, **names),
                stdin=subprocess.DEVNULL,
                stdout=log if terminal is None else terminal,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=bound_to_parent(signal.SIGKILL),  # its own children end with it
            )

    @property
    def said(self) -> str:
        """All that it has written."""
        return self.log.read_text(encoding="utf-8")

    @property
    def record(self) -> RunningStack:
        """Return what `stack.json` says."""
        stack = folder.read_record(self.data)
        assert stack is not None
        return stack

    @property
    def url(self) -> str:
        return self.record.url

    @property
    def api_key(self) -> str:
        """The first account's key."""
        return str(json.loads((self.data / "first-account.json").read_text())["api_key"])

    def child(self, name: str) -> int:
        """The process id of a child that runs."""
        pid, line = self.record.children[name]
        return pid if command_line(pid) == line else 0

    async def kill_child(self, name: str) -> int:
        """Kill a child as soon as it runs; its process id, which is never 0: that would be ourselves."""
        await eventually(lambda: self.child(name) != 0, 30, f"{name} runs")
        pid = self.child(name)
        assert pid, f"{name} has just ended"
        os.kill(pid, signal.SIGKILL)
        return pid

    async def is_ready(self) -> bool:
        """Return whether `/readyz` says that every part works; the lookup data has tests of its own."""
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=5) as client:
            try:
                checks: dict[str, str] = (await client.get(f"{self.url}/readyz")).json()["checks"]
            except (httpx.HTTPError, ValueError, KeyError):
                return False
        return bool(checks) and all(state == "ok" for part, state in checks.items() if part != "data")

    async def ready(self, seconds: float = 120) -> StackProcess:
        """Wait until it says that it is ready; one that does not is killed."""

        def announced() -> bool:
            assert self.process.poll() is None, self.said
            return "Ctrl-C stops it" in self.said

        try:
            await eventually(announced, seconds, "the stack is ready")
        except AssertionError:
            print(self.said, *(self.tail(name) for name in ("api", "worker", "postgres")), sep="\n")
            self.kill()
            raise
        return self

    def tail(self, name: str, lines: int = 15) -> str:
        """The last lines of a child's log."""
        log = self.data / "logs" / f"{name}.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    async def ended(self, seconds: float = 35, *, may_crash: bool = False) -> int:
        """Wait for its end; its exit code. One that does not end is killed.

        `may_crash`: the test had its database crash.
        """
        try:
            await eventually(lambda: self.process.poll() is not None, seconds, "the supervisor has ended")
        finally:
            self.kill()
        assert may_crash or crashes(self.data / "logs" / "postgres.log") == []
        return self.process.returncode

    def kill(self) -> None:
        """End it, if it still runs, as `kill -9` does."""
        self.process.kill()
        self.process.wait(10)

    async def stop(self, *, may_crash: bool = False) -> int:
        """Stop it as Ctrl-C does; its exit code. `may_crash`: as for `ended`."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return await self.ended(may_crash=may_crash)
