"""The watchdog ends a process for its pools alone: neither for a database that is away nor for much work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from unittest.mock import Mock

import pytest
from psycopg import conninfo

import process
import watchdog
from database import Database
from sealing import Keyring
from settings import ExitCode, Settings
from temporal.client import connect
from tests.api_server import running
from tests.automations.engine import working
from tests.stacks import eventually
from watchdog import PoolWatchdog

SIZE = 2


@pytest.fixture
def leave(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Stands in for the end of this process; the watchdog looks often, and has little patience."""
    monkeypatch.setattr(watchdog, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(watchdog, "_STUCK_SECONDS", 0.1)
    left = Mock()
    monkeypatch.setattr(process, "leave", left)
    return left


@contextlib.asynccontextmanager
async def small(url: str) -> AsyncGenerator[Database]:
    """A pool of few connections."""
    opened = Database(url, name="watched", size=SIZE)
    await opened.open()
    yield opened
    await opened.close()


@contextlib.asynccontextmanager
async def emptied(database: Database, size: int = SIZE) -> AsyncGenerator[None]:
    """The pool while others hold all of its connections."""
    async with contextlib.AsyncExitStack() as held:
        for _ in range(size):
            await held.enter_async_context(database.connection())
        make_impatient(database)
        yield


def make_impatient(database: Database) -> None:
    """Have the pool say soon that it has no connection to give."""
    database._pool.timeout = 0.05  # pyright: ignore[reportPrivateUsage]


async def test_a_process_whose_pool_gives_nothing_is_ended(database_url: str, leave: Mock) -> None:
    async with small(database_url) as pool, emptied(pool):
        dog = PoolWatchdog(pool)
        dog.start()
        await eventually(lambda: leave.called, what="the watchdog ends the process")
        await dog.stop()
    leave.assert_called_with(ExitCode.UNEXPECTED)


async def test_a_pool_is_not_stuck_while_it_gives_to_others(database_url: str) -> None:
    async with small(database_url) as pool, contextlib.AsyncExitStack() as held:
        for _ in range(SIZE - 1):
            await held.enter_async_context(pool.connection())
        async with pool.connection():
            served_first = asyncio.create_task(held.enter_async_context(pool.connection()))
            await asyncio.sleep(0)
            make_impatient(pool)
            looking = asyncio.create_task(pool.is_stuck())
            await asyncio.sleep(0)
        await served_first
        assert not await looking


async def test_a_pool_is_not_stuck_while_the_database_is_away(database_url: str) -> None:
    async with small(database_url) as pool, emptied(pool):
        pool.url = conninfo.make_conninfo(pool.url, dbname="there_is_none")
        assert not await pool.is_stuck()


async def test_an_api_watches_its_pool(settings: Settings, leave: Mock) -> None:
    async with running(settings) as api:
        async with emptied(api.services.database, size=6):
            await eventually(lambda: leave.called, what="the watchdog ends the process")


async def test_a_worker_watches_its_pool(live_settings: Settings, keyring: Keyring, leave: Mock) -> None:
    assert live_settings.database_url is not None
    client = await connect(live_settings, keyring)
    async with (
        small(live_settings.database_url.get_secret_value()) as pool,
        working(live_settings, client, pool, keyring),
        emptied(pool),
    ):
        await eventually(lambda: leave.called, what="the watchdog ends the process")
