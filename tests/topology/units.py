"""The units of a machine: what systemd would run by their files, as processes of this machine."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pwd import struct_passwd

import psutil

from embedded.process import Child, ChildSetup

# Of the packages of the distribution.
PACKAGED = {
    "haproxy": "[Service]\nUser=haproxy\nExecStart=/usr/sbin/haproxy -db -f /etc/haproxy/haproxy.cfg\n"
    "Restart=always\nRestartSec=1\nTimeoutStopSec=5\n",
    "pgbouncer": "[Service]\nUser=pgbouncer\nExecStart=/usr/sbin/pgbouncer /etc/pgbouncer/pgbouncer.ini\n"
    "KillSignal=SIGINT\nRestart=always\nRestartSec=1\nTimeoutStopSec=5\n",
}


@dataclass(frozen=True)
class UnitFile:
    """What the file of a service says."""

    command: str
    environment_files: Sequence[str] = ()
    restart_seconds: float = 1.0
    stop_seconds: float = 90.0
    stop_signal: signal.Signals = signal.SIGTERM


def read_unit(text: str) -> UnitFile:
    """Read the file of a service that is restarted whenever it ends."""
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line:
            name, _, value = line.partition("=")
            said.setdefault(name, []).append(value)
    assert said["Restart"] == ["always"], text
    return UnitFile(
        said["ExecStart"][0],
        said.get("EnvironmentFile", []),
        float(said["RestartSec"][0]),
        float(said["TimeoutStopSec"][0]),
        signal.Signals[said.get("KillSignal", ["SIGTERM"])[0]],
    )


def read_environment(text: str) -> dict[str, str]:
    """Read a file of variables, as systemd and shells do."""
    pairs = (word.partition("=") for word in shlex.split(text, comments=True))
    return {name: value for name, _, value in pairs}


@dataclass
class Unit:
    """A service that is started again when it ends, unless it was stopped."""

    name: str
    file: UnitFile
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    user: struct_passwd | None
    codes: list[int] = field(default_factory=list[int])
    stopping: bool = False
    _keeper: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        setup = ChildSetup(environment=self.environment, user=self.user, folder=Path("/"))
        self.child = Child(self.name, self.command, setup, log=self.log, stop_signal=self.file.stop_signal)

    @property
    def pid(self) -> int:
        """Its main process."""
        assert self.child.pid is not None, f"{self.name} does not run:\n{self.child.log_tail(20)}"
        return self.child.pid

    def listens(self) -> bool:
        """Return whether its main process has a socket that listens."""
        return any(
            one.status == psutil.CONN_LISTEN for one in psutil.Process(self.pid).net_connections("tcp")
        )

    async def start(self) -> None:
        """Start it, and keep it."""
        self.stopping = False
        await self.child.start()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def _keep(self) -> None:
        while True:
            self.codes.append(await self.child.wait())
            if self.stopping:
                return
            await asyncio.sleep(self.file.restart_seconds)
            await self.child.start()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def send_all(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes."""
        os.killpg(self.pid, number)

    async def stop(self) -> int:
        """Stop it as systemd does; its exit code, -9 if it had to be killed."""
        if self._keeper is None or self._keeper.done():
            return self.codes[-1] if self.codes else 0
        self.stopping = True
        if self.child.pid is None:
            self._keeper.cancel()  # it waits for its next start
        else:
            self.send_all(signal.SIGCONT)
            await self.child.stop(self.file.stop_seconds)
        await asyncio.gather(self._keeper, return_exceptions=True)
        return self.codes[-1]

    async def restart(self) -> int:
        """Stop it in an orderly way, and start it again; how the former process ended."""
        code = await self.stop()
        await self.start()
        return code
