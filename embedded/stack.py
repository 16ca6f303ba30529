"""The supervisor behind `vedette up`: starts the parts in order, keeps them running, stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from embedded import folder
from embedded.announcement import announce_missing_pages, announce_serving, announce_unknown_terms
from embedded.cluster import account
from embedded.first_account import ensure_first_account
from embedded.folder import RunningStack
from embedded.listener import listen
from embedded.postgres import Postgres
from embedded.process import Child, ChildSetup, cap_log, command_line, stop_leftover
from embedded.process_supervisor import ProcessSupervisor
from embedded.readiness import until_complete, until_served
from embedded.report import Report
from embedded.temporal import Temporal, prepare_given
from embedded.unprivileged import Access, hand_over, let_pass, private_folder
from services.operator.connections import check_database, migrate
from services.operator.sign_in import make_link
from settings import Settings, StartError

_STOP_SECONDS = 30.0
_API_SECONDS, _TEMPORAL_SECONDS, _POSTGRES_SECONDS = 4.0, 3.0, 4.0
_READY_SECONDS = 60.0
_DATA_SECONDS = 60.0
_RELAY_SECONDS = 0.2
_HOUSEKEEPING_SECONDS = 10.0
_LOW_DISK_BYTES = 100 * 1024 * 1024
_LEFTOVER = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))


async def up(settings: Settings, report: Report) -> None:
    """Run the whole stack until SIGINT or SIGTERM; a second signal kills it.

    Raises:
        StartError: if it cannot come up, or a child reports that it never will. Everything is stopped by
            then.
    """
    data = folder.prepare(settings.data)
    with folder.lock(data):
        stack = Stack(settings.model_copy(update={"data": data}), report)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stack.interrupt)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # unless started with nohup
            loop.add_signal_handler(signal.SIGHUP, stack.interrupt)
        try:
            await stack.run()
        finally:
            folder.forget(data)


class Stack:
    """One stack: its parts, in the order in which they start."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._settings = settings
        self._data = settings.data
        self._report = report
        self._started = time.monotonic()
        self._stop = asyncio.Event()
        self._failure: StartError | None = None
        self._supervisor = ProcessSupervisor(report, on_failure=self._fail, on_start=self._note)
        self._tasks: list[asyncio.Task[None]] = []
        self._access = Access(None)
        self._listener: socket.socket | None = None
        self._database = asyncio.Event()
        self._postgres: Postgres | None = None
        self._temporal: Temporal | None = None
        self._fetch: Child | None = None
        self._apis: list[Child] = []
        self._workers: list[Child] = []
        self._record: RunningStack | None = None

    def interrupt(self) -> None:
        """Stop; if it is stopping already, kill the rest."""
        if not self._stop.is_set():
            self._stop.set()
            return
        self._report.say("vedette", "stopping at once")
        parts = [part.child for part in (self._temporal,) if part and part.started]
        for child in [*self._apis, *self._workers, *parts]:
            child.send(signal.SIGKILL)
        if self._postgres and self._postgres.started:
            self._postgres.child.send(signal.SIGQUIT)  # recovers from its log at the next start

    async def run(self) -> None:
        """Start, run until interrupted, then stop."""
        coming = asyncio.create_task(self._come_up(), name="start")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                coming.result()
                await stopping
        except StartError as error:
            self._failure = self._failure or error
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
            await self._go_down()
            stopping.cancel()
        if self._failure is not None:
            raise self._failure

    # ---- coming up

    async def _come_up(self) -> None:
        await self._stop_leftovers()
        self._listener = listen(self._settings.host, self._settings.port)
        port = self._listener.getsockname()[1]
        self._settings = self._settings.model_copy(update={"port": port})
        self._report.say("vedette", f"starting; data in {self._data}, logs in {self._data / 'logs'}")
        announce_unknown_terms(self._report, self._settings)
        announce_missing_pages(self._report, self._settings)
        self._prepare_user()
        self._fetch = self._child("data", "data", "fetch", "--if-missing")
        await self._fetch.start()
        self._tasks.append(asyncio.create_task(self._relay(self._fetch), name="relay"))
        address = self._settings.temporal_address
        if address is None:
            pages, namespace = self._settings.temporal_ui is True, self._settings.temporal_namespace
            log = self._log("temporal")
            self._temporal = Temporal(self._data, log, self._report, namespace=namespace, pages=pages)
            address = self._temporal.reserve()
        self._settings = self._settings.model_copy(update={"temporal_address": address})
        self._tasks.append(asyncio.create_task(self._housekeeping(), name="housekeeping"))
        await _both(self._serve(), self._take_runs_forward())
        await self._until_ready()

    def _prepare_user(self) -> None:
        """Choose the user for the parts when started as root, and give that user access to their files."""
        user = account(self._data / "postgres")
        self._access = Access(user)
        if user is not None:
            let_pass(self._data)
            private_folder(self._data / "datasets", user)
            self._report.say("vedette", f"started as root: its parts run as {user.pw_name}")

    async def _stop_leftovers(self) -> None:
        """Stop the processes of a stack whose supervisor was killed, because they would hold the port."""
        before = folder.read_record(self._data)
        if before is not None:
            async with self._report.during("vedette", "stopping what an earlier stack left running"):
                await asyncio.gather(
                    *(
                        stop_leftover(pid, lambda pid, line=line: command_line(pid) == line, _LEFTOVER)
                        for name, (pid, line) in before.children.items()
                        if line and name not in ("postgres", "temporal")  # these two stop their own leftovers
                    )
                )

    async def _start_database(self) -> str:
        given = self._settings.database_url
        if given is not None:
            url = given.get_secret_value()
            await check_database(url)
        else:
            started = time.monotonic()
            self._postgres = Postgres(self._data, self._log("postgres"), self._report)
            await self._postgres.start()
            url = self._postgres.url
            self._keep_part(self._postgres)
            self._report.say("postgres", f"up ({time.monotonic() - started:.1f} s)")
        async with self._report.during("postgres", "migrating the database"):
            await asyncio.to_thread(migrate, url)
        return url

    async def _serve(self) -> None:
        """Start the parts that requests need, the database and the API, and report when it answers."""
        database_url = await self._start_database()
        created = await ensure_first_account(self._settings, database_url)
        hand_over(self._data / "secret.key", self._access.user)
        self._settings = self._settings.model_copy(update={"database_url": SecretStr(database_url)})
        assert self._settings.temporal_address is not None
        self._record = RunningStack(
            pid=os.getpid(),
            command=command_line(os.getpid()),
            url=self._settings.address,
            database_url=database_url,
            temporal_address=self._settings.temporal_address,
        )
        self._database.set()
        for number in range(self._settings.api_processes):
            name = _number_name("api", number)
            self._apis.append(self._program(name, "api", stdin=self._listener))
        await self._start_programs(self._apis)
        async with self._report.during("vedette", "waiting for the API"):
            missing = await until_served(self._settings)
        self._supervisor.came_up("postgres", *(child.name for child in self._apis))
        link = None
        if self._report.on_terminal:
            link = (await make_link(database_url, self._settings.address, None)).link
        announce_serving(self._report, self._settings, self._seconds(), missing, created=created, link=link)
        if self._fetch is not None and self._fetch.pid is not None:
            self._report.say("data", "is still being fetched; until then IP lookups know little")

    async def _take_runs_forward(self) -> None:
        """Start the parts that runs need: Temporal, which may have to be built first, and the workers."""
        ui = await self._start_temporal()
        await self._database.wait()
        assert self._record is not None
        self._record = replace(self._record, temporal_ui=ui)
        for number in range(self._settings.worker_processes):
            self._workers.append(self._program(_number_name("worker", number), "worker"))
        await self._start_programs(self._workers)

    async def _start_temporal(self) -> str | None:
        """Start the built-in server, or check the configured one; return the address of its web pages."""
        if self._temporal is None:
            await prepare_given(self._settings)
            return None
        started = time.monotonic()
        await self._temporal.start()
        self._keep_part(self._temporal)
        self._report.say("temporal", f"up ({time.monotonic() - started:.1f} s)")
        return self._temporal.ui

    async def _start_programs(self, children: Iterable[Child]) -> None:
        for child in children:
            await child.start()
            self._supervisor.keep(child.start, lambda child=child: child)
            self._note()

    def _program(self, name: str, command: str, stdin: socket.socket | None = None) -> Child:
        """Return one of our own programs, with the addresses of the servers in its environment."""
        settings = self._settings
        assert settings.database_url is not None and settings.temporal_address is not None
        environment = {
            "DATABASE_URL": settings.database_url.get_secret_value(),
            "TEMPORAL_ADDRESS": settings.temporal_address,
            "TEMPORAL_NAMESPACE": settings.temporal_namespace,
            "VEDETTE_PORT": str(settings.port),
        }
        if self._temporal is not None and self._temporal.ui is not None:
            environment["VEDETTE_TEMPORAL_UI"] = self._temporal.ui
        return self._child(name, command, environment=environment, stdin=stdin)

    def _child(
        self,
        name: str,
        *arguments: str,
        environment: dict[str, str] | None = None,
        stdin: socket.socket | None = None,
    ) -> Child:
        inherited, program = self._access.environment(self._data), self._access.python(arguments)
        if environment is not None:
            inherited.pop("DATABASE_URL_FILE", None)
        return Child(
            name,
            program.command,
            ChildSetup(
                environment=inherited | program.environment | (environment or {}),
                user=self._access.user,
                stdin=stdin,
                executable=program.executable,
                descriptors=self._access.descriptors,
            ),
            log=self._log(name),
        )

    def _log(self, name: str) -> Path:
        return self._data / "logs" / f"{name}.log"

    async def _until_ready(self) -> None:
        """Wait until all parts work, and report it; after a minute continue with those that do."""
        async with self._report.during("vedette", "waiting for the worker"):
            missing = await until_complete(self._settings, _READY_SECONDS)
        if missing:
            parts = "; ".join(f"{name}: {state}" for name, state in missing.items())
            self._report.say("vedette", f"not all is well: {parts}")
        self._supervisor.came_up(*(child.name for child in self._children()))
        assert self._record is not None
        self._record = replace(self._record, ready=True)
        self._note()
        lacking = await self._until_data()
        self._report.say("vedette", f"ready at {self._record.url} ({self._seconds():.1f} s){lacking}")
        if self._record.temporal_ui:
            self._report.say("temporal", f"web pages at {self._record.temporal_ui}")
        self._report.say("vedette", "Ctrl-C stops it")

    async def _until_data(self) -> str:
        """Give the first fetch of lookup data a minute more; return a text on missing data."""
        assert self._fetch is not None
        try:
            code = await asyncio.wait_for(asyncio.shield(self._fetch.wait()), _DATA_SECONDS)
        except TimeoutError:
            return "; but lookup data is still being fetched"
        if code == 0:
            return ""
        self._report.say("data", "not all could be fetched; `vedette data fetch` tries again")
        return "; but not all lookup data is there"

    async def _relay(self, child: Child) -> None:
        """Report the output of a child, line by line, until it ends."""
        while True:
            ended = child.pid is None
            for line in child.new_lines():
                self._report.say(child.name, line)
            if ended:
                return
            await asyncio.sleep(_RELAY_SECONDS)

    def _seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    # ---- staying up

    def _keep_part(self, part: Postgres | Temporal) -> None:
        """Watch a built-in server from now on."""
        self._supervisor.keep(part.start, lambda: part.child)

    def _children(self) -> list[Child]:
        """Return the processes of this stack, except for the one that fetches data."""
        parts = [part.child for part in (self._postgres, self._temporal) if part and part.started]
        return [*parts, *self._workers, *self._apis]

    def _fail(self, failure: StartError) -> None:
        self._failure = failure
        self._stop.set()

    async def _housekeeping(self) -> None:
        low = False
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            for log in (self._data / "logs").glob("*.log"):
                cap_log(log)
            free = shutil.disk_usage(self._data).free
            if free < _LOW_DISK_BYTES and not low:
                self._report.say(
                    "vedette", f"the disk of {self._data} is nearly full ({free // 1024**2} MiB)"
                )
            low = free < _LOW_DISK_BYTES

    def _note(self) -> None:
        """Write `stack.json` with the current processes."""
        if self._record is None:
            return
        running = [(child, child.pid) for child in self._children()]
        children = {child.name: (pid, " ".join(child.command)) for child, pid in running if pid}
        # On a full disk the earlier file stays.
        with contextlib.suppress(OSError):
            folder.record(self._data, replace(self._record, children=children))

    # ---- going down

    async def _go_down(self) -> None:
        """Stop in order: no new requests, finish the work, then the servers behind it."""
        deadline = time.monotonic() + _STOP_SECONDS
        if any(child.pid for child in self._workers):
            self._report.say("vedette", "stopping: calls under way have 20 s; a second Ctrl-C stops at once")
        await self._supervisor.release()
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._fetch is not None:
            await self._fetch.stop(1)
        await asyncio.gather(*(child.stop(_API_SECONDS) for child in self._apis))
        patience = deadline - time.monotonic() - _TEMPORAL_SECONDS - _POSTGRES_SECONDS
        await asyncio.gather(*(child.stop(patience) for child in self._workers))
        if self._temporal is not None:
            await self._temporal.stop(_TEMPORAL_SECONDS)
        if self._postgres is not None:
            await self._postgres.stop(_POSTGRES_SECONDS)
        self._report.say("vedette", "stopped")


async def _both(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Await them side by side; if one fails, do not wait for the others."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _number_name(name: str, number: int) -> str:
    return name if number == 0 else f"{name}-{number + 1}"
