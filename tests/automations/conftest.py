"""Accounts, workflows and waiting runs for the tests of the engine."""

from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from ipaddress import ip_network
from typing import Any
from uuid import UUID, uuid4

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from database import Database
from execution import workflow_watch
from language.definition import Definition
from models.accounts import accounts
from models.audit import Actor
from models.automations import automations, run_targets
from models.automations.run_targets import RunTarget
from notifications import Notifier
from sealing import Keyring
from settings import Settings
from temporal.client import connect
from tests.api_server import Api, running
from tests.automations.engine import NewAccount, NewTarget, Run, Work, working
from tests.automations.faults import Around, with_faults
from tests.checked_definitions import checked
from tests.datasets import write_small_datasets


@pytest.fixture
def new_account(database: Database) -> NewAccount:
    async def create() -> UUID:
        async with database.transaction() as connection:
            account = await accounts.create_account(
                connection, accounts.NewAccount(f"{uuid4().hex}@example.com", "-")
            )
        return account.id

    return create


@pytest.fixture
def new_target(database: Database, keyring: Keyring, new_account: NewAccount) -> NewTarget:
    """Makes a workflow and gives the target that runs of it are accepted for."""

    async def create(
        steps: list[dict[str, Any]] | None = None, account_id: UUID | None = None, **fields: Any
    ) -> RunTarget:
        account_id = account_id or await new_account()
        definition = Definition.model_validate(
            {"name": "test", "trigger": {"type": "webhook"}, "steps": steps or [], **fields}
        )
        async with database.transaction() as connection:
            actor = Actor(account_id, "system", name="test")
            created = await automations.create(connection, keyring, actor, checked(definition, "active"))
            return await run_targets.run_target(connection, account_id, created)

    return create


@pytest.fixture
async def nothing_waits(database: Database) -> None:
    """Runs that earlier tests left are gone."""
    async with database.connection() as connection:
        await connection.execute("delete from run_work")
        await connection.execute("update gates set begun = 0")


@pytest.fixture(scope="module")
def open_settings(live_settings: Settings, carried_by: str) -> Settings:
    """Settings with lookup data, and webhook steps that may reach this machine."""
    write_small_datasets(live_settings.data)
    networks = (ip_network("127.0.0.1/32"),)
    chosen = {"allow_private_networks": networks, "execution": carried_by.replace("turns", "auto")}
    return live_settings.model_copy(update=chosen)


@pytest.fixture(scope="module")
async def client(open_settings: Settings, keyring: Keyring) -> Client:
    return await connect(open_settings, keyring)


@pytest.fixture
def at_work(open_settings: Settings, client: Client, database: Database, keyring: Keyring) -> Work:
    """A worker for the time of a block; `around` stands around each of its activities."""

    def work(around: Around | None = None) -> AbstractAsyncContextManager[Notifier]:
        chosen = client if around is None else with_faults(client, around)
        return working(open_settings, chosen, database, keyring)

    return work


@pytest.fixture(scope="module")
def quick_watch() -> Generator[None]:
    """Rows and workflows of runs are compared often, and young ones too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workflow_watch, "_SECONDS", 0.5)
        patch.setattr(workflow_watch, "_YOUNGEST", timedelta(seconds=1))
        yield


@pytest.fixture(scope="module")
async def stranger(open_settings: Settings) -> Client:
    """Anybody who reaches Temporal's port: what it sends is readable, and not sealed."""
    return await Client.connect(str(open_settings.temporal_address), data_converter=pydantic_data_converter)


@pytest.fixture(scope="module")
async def notifier(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[Notifier]:
    async with working(open_settings, client, database, keyring) as running:
        yield running


@pytest.fixture
def run(database: Database, notifier: Notifier, new_target: NewTarget) -> Run:
    return Run(database, notifier, new_target)


@pytest.fixture(scope="module")
async def api(open_settings: Settings) -> AsyncGenerator[Api]:
    async with running(open_settings) as served:
        yield served


@pytest.fixture(scope="module")
async def worker(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[None]:
    async with working(open_settings, client, database, keyring):
        yield
