"""An account with workflows that run by the clock, and a worker."""

from collections.abc import AsyncGenerator
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
from tests.automations.engine import working
from tests.schedules.scheduling import Scheduler


@pytest.fixture(scope="module")
async def client(live_settings: Settings, keyring: Keyring) -> Client:
    return await connect(live_settings, keyring)


@pytest.fixture(scope="module")
async def notifier(
    live_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[Notifier]:
    """A worker, for all tests of a module."""
    async with working(live_settings, client, database, keyring) as running:
        yield running


@pytest.fixture
async def scheduler(database: Database, keyring: Keyring) -> Scheduler:
    """An account."""
    return await new_scheduler(database, keyring)


async def new_scheduler(database: Database, keyring: Keyring) -> Scheduler:
    async with database.transaction() as connection:
        email = f"{uuid4().hex}@example.com"
        account = await accounts.create_account(connection, NewAccount(email, "-"))
    return Scheduler(database, keyring, account.id)
