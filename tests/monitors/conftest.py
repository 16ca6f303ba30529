"""An account with monitors of addresses, a worker, and sources on loopback that say what a test wants."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest
from pydantic import SecretStr
from temporalio.client import Client

from database import Database
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.identifiers import new_id
from notifications import Notifier
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from sealing import Keyring
from settings import ProviderSettings, Settings
from temporal.client import connect
from tests.automations.engine import Endpoint, endpoint, working
from tests.automations.faults import Around, with_faults
from tests.monitors.watching import Scanner, Watcher

NewWatcher = Callable[..., Awaitable[Watcher]]
Work = Callable[..., AbstractAsyncContextManager[Notifier]]


@pytest.fixture(scope="module")
async def scanned() -> AsyncGenerator[Endpoint]:
    """A server that stands for GreyNoise and for AbuseIPDB."""
    async with endpoint() as served:
        yield served


@pytest.fixture
def scanner(scanned: Endpoint) -> Scanner:
    """Return what it says of addresses: the same of all, until a test says otherwise."""
    scanner = Scanner()
    scanned.handler = scanner.handle
    return scanner


@pytest.fixture(scope="module")
def watching_settings(live_settings: Settings, scanned: Endpoint) -> Settings:
    """The module's settings, with these two sources and no others."""
    every = (source for kind in KINDS.values() for source in kind.sources if isinstance(source, RemoteSource))
    providers = {source.spec.name: ProviderSettings(enabled=False) for source in every}
    for name in ("greynoise", "abuseipdb"):
        providers[name] = ProviderSettings(key=SecretStr("k"), base_url=f"{scanned.url}/{name}")
    return live_settings.model_copy(update={"providers": providers})


@pytest.fixture(scope="module")
async def client(watching_settings: Settings, keyring: Keyring) -> Client:
    return await connect(watching_settings, keyring)


@pytest.fixture(scope="module")
async def notifier(
    watching_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[Notifier]:
    """A worker, for all tests of a module."""
    async with working(watching_settings, client, database, keyring) as running:
        yield running


@pytest.fixture
def at_work(watching_settings: Settings, client: Client, database: Database, keyring: Keyring) -> Work:
    """A worker for the time of a block; `around` stands around each of its activities."""

    def work(around: Around | None = None) -> AbstractAsyncContextManager[Notifier]:
        chosen = client if around is None else with_faults(client, around)
        return working(watching_settings, chosen, database, keyring)

    return work


async def forget_answers(database: Database) -> None:
    """Have every source asked anew."""
    async with database.connection() as connection:
        # Each by itself: an answer may be on its way into both, and would be waited for crosswise.
        await connection.execute("truncate lookup_answers")
        await connection.execute("truncate provider_states, source_windows, source_turns")


@pytest.fixture
def new_watcher(database: Database) -> NewWatcher:
    """Makes an account with so many credits; sources may be asked as if for the first time."""

    async def create(balance: int = 1000) -> Watcher:
        await forget_answers(database)
        async with database.transaction() as connection:
            account = await accounts.create_account(
                connection, NewAccount(f"{new_id()}@example.com", "-", credits=balance)
            )
        return Watcher(database, account.id)

    return create


@pytest.fixture
async def watcher(new_watcher: NewWatcher) -> Watcher:
    """An account with 1,000 credits."""
    return await new_watcher()
