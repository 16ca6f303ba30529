"""The built-in Postgres 18 as a child of this process: starting, recovering, stopping."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

from embedded.cluster import (
    SUPERUSER,
    account,
    binaries,
    check,
    environment,
    initialise,
    reachable,
    socket_folder,
)
from embedded.process import Child, ChildSetup, command_line, stop_leftover
from embedded.report import Report
from settings import ExitCode, StartError

_READY_SECONDS = 600  # recovery after a crash replays at most max_wal_size, slowly on a slow disk
_RETRY_SECONDS = 10
_OPTIONS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "autovacuum_naptime": "10s",  # queues turn over quickly; their dead rows should not wait a minute
    "random_page_cost": "1.1",
    "jit": "off",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


def url(socket_folder: Path) -> str:
    """Return the connection URL of the server whose socket is in `socket_folder`."""
    return f"postgresql://{SUPERUSER}@/{SUPERUSER}?host={quote(str(socket_folder), safe='')}"


class Postgres:
    """One Postgres server on `<data>/postgres`, as a child of this process."""

    def __init__(self, data: Path, log: Path, report: Report) -> None:
        """Describe the server.

        Args:
            data: the data folder; it exists and is writable.
            log: receives the server's messages.
            report: receives slow or unusual steps.
        """
        self._link = data.absolute() / "postgres"
        self._log = log
        self._report = report
        self._child: Child | None = None
        self.url = ""

    @property
    def started(self) -> bool:
        """Return whether its process has been started."""
        return self._child is not None

    @property
    def child(self) -> Child:
        """The running server's process."""
        assert self._child is not None
        return self._child

    async def start(self) -> None:
        """Start the server, making its folder if needed, and wait until it accepts connections.

        Raises:
            StartError: if the server cannot use the folder, or does not come up.
        """
        user = account(self._link)
        programs = reachable(binaries(), user)
        if not self._link.exists():
            async with self._report.during("postgres", "making the database"):
                await initialise(programs, self._link, user, self._report)
        cluster = self._link.resolve()
        check(cluster, user)
        unclean = await self._clear_lock(cluster)
        sockets = socket_folder(cluster, user)
        self.url = url(sockets)
        options = {**_OPTIONS, "unix_socket_directories": str(sockets)}
        command = [str(programs / "postgres"), "-D", str(cluster)]
        command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        self._child = Child(
            "postgres",
            command,
            ChildSetup(environment=environment(), user=user, folder=cluster),
            log=self._log,
            stop_signal=signal.SIGINT,
        )
        text = "recovering after a stop that was not clean" if unclean else "starting"
        async with self._report.during("postgres", text):
            await self._until_ready(retry=unclean)
        await _create_database(self.url)

    async def stop(self, seconds: float = 8) -> None:
        """Stop it cleanly: connections are ended, and memory is written to disk."""
        if self._child is not None:
            await self._child.stop(seconds, harder=signal.SIGQUIT)

    async def _clear_lock(self, cluster: Path) -> bool:
        """Stop a server that an earlier stack left running here; remove a lock of another process.

        Returns:
            Whether the last stop was not a clean one.
        """
        lock = cluster / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
        except FileNotFoundError:
            return False
        except ValueError:
            pid = 0  # no process has this id
        signals = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
        async with self._report.during("postgres", "stopping the server that an earlier start left running"):
            await stop_leftover(pid, lambda pid: _serves(pid, cluster), signals)
        if command_line(pid) and not _serves(pid, cluster):
            lock.unlink(missing_ok=True)  # Postgres would take the other process for its own
        return True

    async def _until_ready(self, *, retry: bool) -> None:
        """Start the process and wait until it accepts connections.

        After a `kill -9` of the main process, its children take a moment to end. A new server refuses to
        start while they hold the shared memory. `retry` therefore repeats the start.
        """
        retry_until = time.monotonic() + (_RETRY_SECONDS if retry else 0)
        deadline = time.monotonic() + _READY_SECONDS
        await self.child.start()
        while time.monotonic() < deadline:
            if self.child.pid is None:
                if time.monotonic() > retry_until:
                    break
                await asyncio.sleep(0.2)
                await self.child.start()
            with contextlib.suppress(psycopg.OperationalError):
                connection = await psycopg.AsyncConnection.connect(self.url, dbname="postgres")
                await connection.close()
                return
            await asyncio.sleep(0.05)
        words = self.child.log_tail()
        await self.stop()
        raise StartError(
            f"The built-in Postgres does not start; the end of {self._log}:\n{words}", ExitCode.DATABASE
        )


def _serves(pid: int, cluster: Path) -> bool:
    """Return whether the process is a Postgres on this folder, identified by its working folder."""
    line = command_line(pid)
    if "postgres" not in line:
        return False
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(cluster)
    except OSError:
        return str(cluster) in line


async def _create_database(database_url: str) -> None:
    connection = await psycopg.AsyncConnection.connect(database_url, dbname="postgres", autocommit=True)
    async with connection:
        found = await connection.execute("select 1 from pg_database where datname = %s", (SUPERUSER,))
        if await found.fetchone() is None:
            await connection.execute(f"create database {SUPERUSER}")
