"""A worker that Temporal reaches and Postgres does not: others go on with its runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest
from structlog.testing import capture_logs
from temporalio.client import Client

import logs
from database import Database
from execution import executor, polling
from notifications import Notifier
from sealing import Keyring
from settings import Settings
from temporal import reaching
from temporal.client import connect
from tests.automations.engine import Endpoint, NewTarget, ended, requested, webhook, working
from tests.automations.own_runs import begun
from tests.stacks import eventually

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """A connection to a server that can be cut."""

    def __init__(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        self._connect = connect
        self._open: set[asyncio.StreamWriter] = set()
        self.is_cut = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection, unless the link is cut."""
        if self.is_cut:
            writer.transport.abort()
            return
        there, back = await self._connect()
        self._open |= {writer, back}
        await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        self._open -= {writer, back}

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    def cut(self) -> None:
        """Break all connections, and refuse others."""
        self.is_cut = True
        for writer in self._open:
            writer.transport.abort()


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[tuple[Link, str]]:
    known = psycopg.conninfo.conninfo_to_dict(database.url)
    socket = f"{known['host']}/.s.PGSQL.{known.get('port') or 5432}"
    link = Link(lambda: asyncio.open_unix_connection(socket))
    server = await asyncio.start_server(link.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield link, psycopg.conninfo.make_conninfo(database.url, host="127.0.0.1", port=port)
    link.cut()
    server.close()


class Far(NamedTuple):
    """A worker that reaches the database, and Temporal, over links."""

    link: Link
    temporal: Link
    notifier: Notifier
    client: Client


@pytest.fixture
async def far(
    open_settings: Settings, keyring: Keyring, link: tuple[Link, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Far]:
    monkeypatch.setattr(executor, "_CUT_OFF_SECONDS", 3.0)
    for module in (polling, reaching):
        monkeypatch.setattr(module, "_log", logs.get("not used before"))
    host, port = str(open_settings.temporal_address).rsplit(":", 1)
    temporal = Link(lambda: asyncio.open_connection(host, int(port)))
    server = await asyncio.start_server(temporal.carry, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    mine = open_settings.model_copy(update={"temporal_address": address})
    theirs, client = Database(link[1], name="far"), await connect(mine, keyring)
    await theirs.open()
    async with working(mine, client, theirs, keyring) as notifier:
        yield Far(link[0], temporal, notifier, client)
    await theirs.close()
    server.close()


async def begin(far: Far, database: Database, new_target: NewTarget, receiver: Endpoint) -> tuple[UUID, UUID]:
    """Begin a run of two calls, whose wait between them stays in the workflow; return account and run."""
    nap = {"id": "nap", "type": "delay", "config": {"seconds": 2}}
    steps = [webhook(f"{receiver.url}/1", "one"), nap, webhook(f"{receiver.url}/2", "two")]
    target = await new_target(steps, execution="workflow")
    run_id, _ = await begun(far.notifier, far.client, database, target)
    await requested(receiver, 1)
    return target.account_id, run_id


@pytest.mark.long
async def test_another_worker_goes_on_with_its_workflows(
    open_settings: Settings, database: Database, keyring: Keyring, new_target: NewTarget,
    receiver: Endpoint, far: Far,
) -> None:  # fmt: skip
    account_id, run_id = await begin(far, database, new_target, receiver)
    far.link.cut()
    ours = await connect(open_settings, keyring)
    async with working(open_settings, ours, database, keyring) as notifier:
        view = await ended(database, notifier, account_id, run_id)
    assert view.status == "completed"
    assert set(receiver.paths) == {"/1", "/2"}


@pytest.mark.long
async def test_it_takes_workflows_again_once_it_is_back(
    database: Database, new_target: NewTarget, receiver: Endpoint, far: Far
) -> None:
    account_id, run_id = await begin(far, database, new_target, receiver)
    await give_up(far)
    far.link.is_cut = False
    view = await ended(database, far.notifier, account_id, run_id)
    assert view.status == "completed"


@pytest.mark.long
async def test_it_outlives_that_temporal_comes_back_after_the_database(
    database: Database, new_target: NewTarget, receiver: Endpoint, far: Far
) -> None:
    account_id, run_id = await begin(far, database, new_target, receiver)
    await give_up(far)
    with capture_logs() as lines:
        far.temporal.cut()
        far.link.is_cut = False
        await eventually(lambda: "waits_for_temporal" in [line["event"] for line in lines], 40)
    far.temporal.is_cut = False
    view = await ended(database, far.notifier, account_id, run_id, 60)
    assert view.status == "completed"


async def give_up(far: Far) -> None:
    """Cut the worker off until it has given its workflows up."""
    with capture_logs() as lines:
        far.link.cut()
        # A decision that waits for the database ends first.
        await eventually(lambda: "polling_stopped" in [line["event"] for line in lines], 30)
