"""A worker that starts while Temporal is away does what needs no Temporal, and connects when it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import structlog
from temporalio.service import RPCError

import worker
from database import Database
from execution import workflow_watch
from execution.workflow_watch import WorkflowWatch
from sealing import Keyring
from settings import ExitCode, Settings, StartError
from temporal import reaching
from temporal.client import connect
from tests.api_server import running
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    accept,
    ended,
    requested,
    transform,
    until,
    webhook,
    working,
)
from tests.automations.own_runs import performers
from tests.stacks import free_port
from workflows.messages import RECONCILE_SCHEDULES, TEND_HISTORY


@asynccontextmanager
async def forwarded(port: int, address: str) -> AsyncGenerator[None]:
    """A port that leads to the server at an address."""
    host, _, target = address.rpartition(":")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(target))
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    async with await asyncio.start_server(forward, "127.0.0.1", port):
        yield


@asynccontextmanager
async def hanging() -> AsyncGenerator[str]:
    """A server that takes connections and answers nothing; give its address."""
    writers: list[asyncio.StreamWriter] = []

    async def keep(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    async with await asyncio.start_server(keep, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in writers:
            writer.close()


async def test_a_server_that_hangs_is_noted_as_away(
    open_settings: Settings, database: Database, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_watch, "_REACH_SECONDS", 0.2)
    unused: Any = None
    async with hanging() as address:
        settings = open_settings.model_copy(update={"temporal_address": address})
        watch = WorkflowWatch(database, await connect(settings, keyring, lazy=True), unused)
        with structlog.testing.capture_logs() as logged:
            await watch.reach_temporal()
    assert [entry["event"] for entry in logged] == ["temporal_not_reached"]
    assert not watch.reaches_temporal


@pytest.mark.usefixtures("short_periods", "nothing_waits")
async def test_runs_go_by_shift_before_temporal_comes_and_have_workflows_afterwards(
    open_settings: Settings,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reaching, "_LONGEST_PAUSE_SECONDS", 1.0)
    assert open_settings.temporal_address is not None
    address, port = open_settings.temporal_address, free_port()
    settings = open_settings.model_copy(update={"temporal_address": f"127.0.0.1:{port}"})
    lazy = await connect(settings, keyring, lazy=True)
    at_once = await new_target([transform("sum", "`1`")])
    held = await new_target([webhook(f"{receiver.url}/held")])
    async with working(settings, lazy, database, keyring) as notifier, running(settings) as api:
        [first] = await accept(database, at_once)
        assert (await ended(database, notifier, at_once.account_id, first)).status == "completed"
        [second] = await accept(database, held)
        await requested(receiver, 1)

        async def is_degraded() -> bool:
            answer = (await api.http.get("/readyz")).json()
            parts = answer["checks"]
            return (answer["status"], parts["temporal"], parts["workers"]) == (
                "degraded",
                "unreachable",
                "ok",
            )

        await until(is_degraded)
        async with forwarded(port, address):
            receiver.open.set()
            assert (await ended(database, notifier, held.account_id, second)).status == "completed"

            async def has_workflow() -> bool:
                [third] = await accept(database, held)
                assert (await ended(database, notifier, held.account_id, third)).status == "completed"
                return await performers(database, third) == {"call": "activity"}

            await until(has_workflow)


@pytest.mark.usefixtures("nothing_waits")
async def test_runs_go_by_shift_while_a_server_hangs(
    open_settings: Settings,
    database: Database,
    keyring: Keyring,
    new_target: NewTarget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the worker ends when it is told to, though that server still hangs."""
    monkeypatch.setattr(worker, "_FIRST_REACH_SECONDS", 0.1)
    target = await new_target([transform("sum", "`1`")], execution="shift")
    async with hanging() as address:
        settings = open_settings.model_copy(update={"temporal_address": address})
        client = await connect(settings, keyring, lazy=True)
        async with AsyncExitStack() as stack:
            notifier = await stack.enter_async_context(working(settings, client, database, keyring))
            [run_id] = await accept(database, target)
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
            # A request to a server that hangs takes half a minute.
            async with asyncio.timeout(10):
                await stack.aclose()


async def test_a_server_that_refuses_what_it_lacks_is_asked_again(
    open_settings: Settings, database: Database, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "_FIRST_PAUSE_SECONDS", 0.01)
    tries: list[int] = []

    async def prepare() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise StartError("It lacks search attributes.", ExitCode.TEMPORAL)

    client = await connect(open_settings, keyring, lazy=True)
    async with working(open_settings, client, database, keyring, prepare=prepare):
        await until(lambda: _is(len(tries), 3))


async def test_a_server_that_has_lost_what_was_prepared_is_prepared_again(
    open_settings: Settings, database: Database, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "_CHECK_SECONDS", 0.05)
    prepared: list[int] = []

    async def prepare() -> None:
        prepared.append(1)

    client = await connect(open_settings, keyring, lazy=True)
    names = [f"maintenance/{task}" for task in (RECONCILE_SCHEDULES, TEND_HISTORY)]

    async def are_there() -> bool:
        try:
            return bool([await client.get_schedule_handle(name).describe() for name in names])
        except RPCError:
            return False

    async def is_prepared_again() -> bool:
        if not await are_there():
            return False
        if len(prepared) > 1:
            return True
        # The worker's first preparation may still make them anew: then they are lost once more.
        for name in names:
            await client.get_schedule_handle(name).delete()
        return False

    async with working(open_settings, client, database, keyring, prepare=prepare):
        await until(is_prepared_again)


async def _is(found: int, expected: int) -> bool:
    return found == expected
