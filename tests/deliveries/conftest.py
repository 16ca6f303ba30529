"""An account with endpoints, receivers, and a worker that sends to them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_network
from uuid import uuid4

import pytest
from temporalio.client import Client

from database import Database
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from notifications import Notifier
from sealing import Keyring
from settings import Settings
from temporal.client import connect
from tests.automations.engine import Work, working
from tests.automations.faults import Around, with_faults
from tests.deliveries.receivers import Hooks


@pytest.fixture(scope="module")
def quick_settings(live_settings: Settings) -> Settings:
    """Settings of a worker that may reach this machine, and tries again soon, twice."""
    networks = (ip_network("127.0.0.1/32"),)
    return live_settings.model_copy(
        update={"allow_private_networks": networks, "webhook_schedule": (0.3, 0.3)}
    )


@pytest.fixture(scope="module")
async def client(quick_settings: Settings, keyring: Keyring) -> Client:
    return await connect(quick_settings, keyring)


@pytest.fixture(scope="module")
async def notifier(
    quick_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[Notifier]:
    """A worker, for all tests of a module."""
    async with working(quick_settings, client, database, keyring) as running:
        yield running


@pytest.fixture
def at_work(quick_settings: Settings, client: Client, database: Database, keyring: Keyring) -> Work:
    """A worker for the time of a block.

    `around` stands around each of its activities; `schedule` is that of its retries.
    """

    def work(
        around: Around | None = None, schedule: tuple[float, ...] = (0.3, 0.3)
    ) -> AbstractAsyncContextManager[Notifier]:
        chosen = client if around is None else with_faults(client, around)
        settings = quick_settings.model_copy(update={"webhook_schedule": schedule})
        return working(settings, chosen, database, keyring)

    return work


@pytest.fixture
def new_hooks(database: Database, keyring: Keyring) -> Callable[[], Awaitable[Hooks]]:
    """Makes an account."""

    async def create() -> Hooks:
        async with database.transaction() as connection:
            email = f"{uuid4().hex}@example.com"
            account = await accounts.create_account(connection, NewAccount(email, "-"))
        return Hooks(database, keyring, account.id)

    return create


@pytest.fixture
async def hooks(new_hooks: Callable[[], Awaitable[Hooks]]) -> Hooks:
    """An account."""
    return await new_hooks()
