"""A worker with its workflows, and a stranger who reaches the same Temporal server but has no key."""

from collections.abc import AsyncGenerator

import pytest
from temporalio.client import Client

from database import Database
from notifications import Notifier
from sealing import Keyring
from settings import Settings
from tests.automations.conftest import (
    client,
    new_account,
    new_target,
    open_settings,
    quick_watch,
    stranger,
)
from tests.automations.engine import working

__all__ = ["client", "new_account", "new_target", "open_settings", "quick_watch", "stranger"]


@pytest.fixture(scope="module")
async def notifier(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring
) -> AsyncGenerator[Notifier]:
    async with working(open_settings, client, database, keyring) as running:
        yield running
