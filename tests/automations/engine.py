"""A worker in the test's own process, and an HTTP server that answers as a test wants."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any
from uuid import UUID

from aiohttp import web
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

import worker
from database import Database
from models.automations.run_targets import RunTarget
from models.runs import acceptance, cancellation
from models.runs.runs import CANCELLED_CHANNEL, FINISHED_CHANNEL, QUEUED_CHANNEL, RunView
from notifications import Notifier
from outbound.client import Outbound
from providers.lookup.lookup import Lookups
from sealing import Keyring
from services.process_pool import ProcessPool
from settings import Settings
from temporal.starts import run_workflow_id
from tests import commands
from tests.stacks import environment
from tests.views import get_run

DEADLINE_SECONDS = 30

NewAccount = Callable[[], Awaitable[UUID]]
NewTarget = Callable[..., Awaitable[RunTarget]]


async def until(look: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """Look again and again, and ever less often, until it gives something true."""
    async with asyncio.timeout(seconds):
        pause = 0.002
        while not (found := await look()):
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.05)
        return found


@dataclass
class Endpoint:
    """The other side of webhook steps: remembers requests; `answer` decides."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    answer: Callable[[dict[str, Any]], web.Response] = lambda request: web.json_response({"ok": True})
    open: asyncio.Event = field(default_factory=asyncio.Event)
    handler: Callable[[web.Request], Awaitable[web.Response]] | None = None

    @property
    def paths(self) -> list[str]:
        """Return what was asked for, in order."""
        return [request["path"] for request in self.requests]

    async def handle(self, request: web.Request) -> web.Response:
        seen = {"path": request.path, "headers": dict(request.headers), "body": await request.text()}
        self.requests.append(seen)
        if self.handler is not None:
            return await self.handler(request)
        if request.path == "/held":
            await self.open.wait()
        if request.path == "/slow":
            await asyncio.sleep(1.2)
        return self.answer(seen)


@asynccontextmanager
async def endpoint(port: int = 0) -> AsyncGenerator[Endpoint]:
    """Serve on a port of the loopback interface, a random one by default."""
    served = Endpoint()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", served.handle)
    # What is held when a test ends is let go at once.
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield served
    await runner.cleanup()


Work = Callable[..., AbstractAsyncContextManager[Notifier]]


@asynccontextmanager
async def working(
    settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
    *,
    outbound: Outbound | None = None,
    prepare: Callable[[], Awaitable[object]] | None = None,
    max_cached_workflows: int = worker.CACHED_WORKFLOWS,
) -> AsyncGenerator[Notifier]:
    """A worker with its dispatcher, for the time of the block."""
    notifier, pool, stop = Notifier(database), ProcessPool(), asyncio.Event()
    notifier.start()
    async with outbound or Outbound(settings) as outbound:
        lookups = Lookups(settings, database, keyring, outbound)
        await lookups.open()
        task = asyncio.create_task(
            worker.work(
                worker.Services(settings, client, database, keyring, notifier, outbound, lookups, pool),
                stop,
                prepare=prepare,
                max_cached_workflows=max_cached_workflows,
            )
        )
        try:
            yield notifier
        finally:
            stop.set()
            try:
                await task
            finally:
                await pool.close()
                await lookups.close()
                await notifier.stop()


def hasty_worker(settings: Settings, *dies_after: str, **more: str) -> AbstractContextManager[BaseProcess]:
    """A worker process that is found lost soon; it dies after this function, if one is named."""
    return process(settings, "tests.automations.hasty_worker", *dies_after, **more)


@contextmanager
def process(settings: Settings, module: str, *arguments: str, **more: str) -> Generator[BaseProcess]:
    """The `main` of a module over the servers and the data folder of the settings, until the block ends."""
    assert settings.database_url is not None and settings.temporal_address is not None
    names = environment(
        settings.data,
        DATABASE_URL=settings.database_url.get_secret_value(),
        TEMPORAL_ADDRESS=settings.temporal_address,
        **{"VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.1/32", "VEDETTE_EXECUTION": settings.execution} | more,
    )
    running = commands.start(module, arguments, names)
    try:
        yield running
    finally:
        running.kill()
        running.join()


def send_signal(running: BaseProcess, number: signal.Signals) -> None:
    """Send a process a signal."""
    assert running.pid is not None
    os.kill(running.pid, number)


async def requested(receiver: Endpoint, count: int, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait for so many requests."""

    async def look() -> bool:
        return len(receiver.requests) >= count

    await until(look, seconds)


async def seen(
    database: Database,
    account_id: UUID,
    run_id: UUID,
    holds: Callable[[RunView], bool],
    seconds: float = DEADLINE_SECONDS,
) -> RunView:
    """The run once something holds of it."""

    async def look() -> RunView | None:
        async with database.connection() as connection:
            view = await get_run(connection, account_id, run_id)
        return view if holds(view) else None

    return await until(look, seconds)


async def ended(
    database: Database,
    notifier: Notifier,
    account_id: UUID,
    run_id: UUID,
    seconds: float = DEADLINE_SECONDS,
) -> RunView:
    """The run once it has ended."""
    notifier.notify(QUEUED_CHANNEL)
    return await seen(database, account_id, run_id, lambda view: view.completed_at is not None, seconds)


async def waiting(database: Database, account_id: UUID, run_id: UUID) -> RunView:
    """The run once it waits."""
    return await seen(database, account_id, run_id, lambda view: view.status == "waiting")


async def run_workflow(client: Client, run_id: UUID) -> WorkflowHandle[Any, Any]:
    """The workflow of a run's own, once Temporal knows it."""
    handle = client.get_workflow_handle(run_workflow_id(run_id))

    async def known() -> bool:
        try:
            await handle.describe()
        except RPCError as error:
            assert error.status is RPCStatusCode.NOT_FOUND, error
            return False
        return True

    await until(known)
    return handle


async def events_of(handle: WorkflowHandle[Any, Any], kind: str) -> list[HistoryEvent]:
    """The events of a history that are of a kind, such as `timer_started`."""
    history = await handle.fetch_history()
    return [event for event in history.events if event.HasField(f"{kind}_event_attributes")]  # pyright: ignore[reportArgumentType]


async def failed_tasks(handle: WorkflowHandle[Any, Any]) -> list[HistoryEvent]:
    """The workflow tasks that failed; not those during which a signal came, which the server gives anew."""
    came = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
    failed = await events_of(handle, "workflow_task_failed")
    return [one for one in failed if one.workflow_task_failed_event_attributes.cause != came]


async def cancel(database: Database, notifier: Notifier, account_id: UUID, run_id: UUID) -> None:
    """As the API does it: in the record, and then everybody is told."""
    async with database.connection() as connection:
        await cancellation.cancel(connection, account_id, run_id)
    notifier.notify(CANCELLED_CHANNEL, str(run_id))
    notifier.notify(FINISHED_CHANNEL, str(run_id))


async def accept(database: Database, target: RunTarget, count: int = 1, payload: Any = None) -> list[UUID]:
    """Accept so many runs, in one statement: one claim finds them together."""
    return await accept_each(database, target, [payload] * count)


async def accept_each(database: Database, target: RunTarget, payloads: Sequence[Any]) -> list[UUID]:
    """Accept a run for each payload, in one statement."""
    events = [acceptance.RunRequest(target, "manual", payload) for payload in payloads]
    async with database.connection() as connection:
        return [accepted.run_id for accepted in await acceptance.accept(connection, events)]


class Run:
    """Runs steps on a payload and gives the finished run."""

    def __init__(self, database: Database, notifier: Notifier, new_target: NewTarget) -> None:
        self._database, self._notifier, self._new_target = database, notifier, new_target

    async def __call__(self, steps: list[dict[str, Any]], payload: Any = None) -> RunView:
        return (await self.many(steps, [payload]))[0]

    async def many(self, steps: list[dict[str, Any]], payloads: list[Any]) -> list[RunView]:
        """The finished runs, one for each payload; one claim finds them together."""
        target = await self._new_target(steps)
        run_ids = await accept_each(self._database, target, payloads)
        views = await asyncio.gather(
            *(ended(self._database, self._notifier, target.account_id, run_id) for run_id in run_ids)
        )
        return views


def statuses(view: RunView) -> dict[str, str]:
    """The status of each step."""
    return {step.id: step.status for step in view.steps}


def webhook(url: str, step_id: str = "call", **config: Any) -> dict[str, Any]:
    """A webhook step whose attempts follow each other quickly."""
    quick = {"max_attempts": 3, "initial_seconds": 0.01}
    return {"id": step_id, "type": "webhook", "config": {"url": url, **config}, "retry": quick}


def transform(step_id: str, expression: str, **more: Any) -> dict[str, Any]:
    """A transform step."""
    return {"id": step_id, "type": "transform", "config": {"expression": expression}, **more}
