"""The built-in Temporal: a development server over a SQLite file, tuned, as a child of this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from datetime import timedelta
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

import logs
from embedded.cluster import account, runnable
from embedded.folder import write_private
from embedded.process import Child, ChildSetup, command_line, stop_leftover
from embedded.report import Report
from embedded.temporal_binary import obtain
from embedded.temporal_pages import Pages
from embedded.unprivileged import reachable_folder
from services.operator.connections import check_temporal
from settings import ExitCode, Settings, StartError
from temporal import attributes
from temporal.client import Connection, connection

_log = logs.get(__name__)
_RETENTION = timedelta(hours=1)  # the permanent record is in Postgres
_READY_SECONDS = 60
_STARTS = 3
_LEFTOVER = ((signal.SIGTERM, 8.0), (signal.SIGKILL, 5.0))
# Measured on two cores: with the default of 20 polls a second, every workflow task after a burst waits 50 ms;
# a single partition and a write-ahead log remove most of the remaining tail.
_DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    "matching.enableFairness": "true",
    "frontend.namespaceRPS": "100000",
    "frontend.rps": "100000",
    # Its HTTP port cannot be disabled, so it accepts no host name.
    "frontend.httpAllowedHosts": "[]",
}
_SQLITE = {"journal_mode": "wal", "synchronous": "normal"}


class Temporal:
    """One Temporal server on `<data>/temporal/temporal.db`."""

    def __init__(
        self,
        data: Path,
        log: Path,
        report: Report,
        *,
        namespace: str = "default",
        pages: bool = False,
    ) -> None:
        """Describe the server.

        Args:
            data: the data folder; it exists and is writable.
            log: receives the server's messages.
            report: receives slow steps.
            namespace: created on start if it does not exist.
            pages: whether to serve its web pages too.
        """
        kept = {
            "worker.protectedNamespaces": json.dumps([namespace])
        }  # protects against others who can reach the port
        self._dynamic_config = _DYNAMIC_CONFIG | kept
        self._data = data.absolute()
        self._file = (self._data / "temporal").resolve() / "temporal.db"
        self._log = log
        self._report = report
        self._namespace = namespace
        self._pages = Pages() if pages else None
        self._ports: tuple[int, int, int] | None = None
        self._held = contextlib.ExitStack()
        self._child: Child | None = None

    @property
    def started(self) -> bool:
        """Return whether its process has been started."""
        return self._child is not None

    @property
    def child(self) -> Child:
        """The running server's process."""
        assert self._child is not None
        return self._child

    @property
    def address(self) -> str:
        """The address for clients; it stays the same when the server is started again."""
        assert self._ports is not None
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def ui(self) -> str | None:
        """The address of its web pages, if it has any."""
        return self._pages.url if self._pages else None

    def reserve(self) -> str:
        """Choose the ports, and hold them until the server starts; later calls keep the first choice.

        Returns:
            The address, which refuses connections until then.
        """
        if self._ports is None:
            self._ports = _held_ports(self._held)
        return self.address

    async def start(self) -> None:
        """Start the server and wait until it accepts, with its namespace and search attributes in place.

        Raises:
            StartError: if there is no server program, or it does not come up.
        """
        program = await obtain(self._data, self._report)
        await self._stop_leftover()
        user, made = account(self._data / "postgres"), program.stat()
        program = runnable(program, program, f"temporal-{made.st_mtime_ns:x}-{made.st_size:x}", user)
        self._file = reachable_folder(self._data / "temporal", user) / "temporal.db"
        self.reserve()
        self._child = Child(
            "temporal",
            self._command(program),
            ChildSetup(environment=_environment(), user=user),
            log=self._log,
        )
        self._held.close()
        if self._pages is not None:
            await self._pages.start()
        async with self._report.during("temporal", "starting"):
            await self._until_ready()

    async def stop(self, seconds: float = 6) -> None:
        """Stop it, and wait until it has released its file."""
        self._held.close()
        if self._pages is not None:
            await self._pages.stop()
        if self._child is not None:
            await self._child.stop(seconds)

    def _command(self, program: Path) -> list[str]:
        assert self._ports is not None
        command = [str(program), "server", "start-dev", "--ip", "127.0.0.1", "--log-level", "warn"]
        command += ["--db-filename", str(self._file)]
        for name, port in zip(("port", "http-port", "metrics-port"), self._ports, strict=True):
            command += [f"--{name}", str(port)]
        if self._pages is None:
            command += ["--headless"]
        else:
            command += ["--ui-ip", self._pages.host, "--ui-port", str(self._pages.port)]
            command += ["--ui-disable-news-fetch"]
        for name, value in self._dynamic_config.items():
            command += ["--dynamic-config-value", f"{name}={value}"]
        for name, value in _SQLITE.items():
            command += ["--sqlite-pragma", f"{name}={value}"]
        return command if self._namespace == "default" else [*command, "--namespace", self._namespace]

    async def _stop_leftover(self) -> None:
        """Stop the server of an earlier stack, because two on one file, even for a moment, damage it."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int((self._file.parent / "pid").read_text())
            async with self._report.during("temporal", "stopping the server of an earlier start"):
                await stop_leftover(pid, lambda pid: str(self._file) in command_line(pid), _LEFTOVER)

    async def _until_ready(self) -> None:
        """Start its process, and restart it if it ends before it answers.

        It also listens on ports of its own choice, which another process can take just before.
        """
        problem = ""
        for _ in range(_STARTS):
            await self.child.start()
            write_private(self._file.with_name("pid"), f"{self.child.pid}\n")
            problem = await self._problem()
            if not problem:
                return
            if self.child.pid is not None:
                break
        words = self.child.log_tail() or problem
        await self.stop()
        raise StartError(
            f"The built-in Temporal server does not start; the end of {self._log}:\n{words}",
            ExitCode.TEMPORAL,
        )

    async def _problem(self) -> str:
        """Wait until the started process answers; return the reason if it does not, or an empty string."""
        here = Connection(target_host=self.address, namespace=self._namespace, api_key=None, tls=False)
        deadline = time.monotonic() + _READY_SECONDS
        problem = "it has ended"
        while time.monotonic() < deadline and self.child.pid is not None:
            try:
                await prepare(here, retention=_RETENTION)
                return ""
            except (RuntimeError, RPCError) as error:
                problem = str(error)
                await asyncio.sleep(0.05)
        return problem


async def prepare(server: Connection, *, retention: timedelta | None = None) -> None:
    """Make sure that a server has our search attributes. A repetition changes nothing.

    Args:
        server: its namespace must exist.
        retention: how long closed workflows are kept; None leaves it unchanged.

    Raises:
        RuntimeError: if the server cannot be reached.
        RPCError: if it refuses.
    """
    client, namespace = await Client.connect(**server), server["namespace"]
    await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    await attributes.add_missing(client, namespace)
    if retention is not None:
        seconds = Duration(seconds=int(retention.total_seconds()))
        await client.workflow_service.update_namespace(
            UpdateNamespaceRequest(
                namespace=namespace, config=NamespaceConfig(workflow_execution_retention_ttl=seconds)
            )
        )


async def prepare_given(settings: Settings) -> None:
    """Prepare a server that the settings name in the same way.

    A server where only its operator may add search attributes is used without them.

    Raises:
        StartError: if it is unreachable, or has no such namespace.
    """
    await check_temporal(settings)
    try:
        await prepare(connection(settings))
    except RPCError as error:
        if error.status in attributes.REFUSED:
            _log.warning("search_attributes_refused", reason=error.message, remedy="see `vedette doctor`")
            return
        raise StartError(
            f"Temporal at {settings.temporal_address} cannot be used: {error.message}.", ExitCode.TEMPORAL
        ) from None


def _environment() -> dict[str, str]:
    """Return the parent's environment without variables that configure the command line tool."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}


def _held_ports(held: contextlib.ExitStack) -> tuple[int, int, int]:
    """Return three free ports on the loopback address, reserved while they are held."""
    ports: list[int] = []
    for _ in range(3):
        holder = held.enter_context(socket.socket())
        holder.bind(("127.0.0.1", 0))
        ports.append(holder.getsockname()[1])
    return ports[0], ports[1], ports[2]
