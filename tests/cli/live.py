"""An API over a worker, for the modules whose commands have runs, jobs and deliveries done."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import Settings
from tests.api_server import Api, running
from tests.automations.conftest import client, open_settings
from tests.automations.engine import working

__all__ = ["api", "client", "open_settings", "worker"]


@pytest.fixture(scope="module")
async def api(open_settings: Settings) -> AsyncGenerator[Api]:
    async with running(open_settings) as served:
        yield served


@pytest.fixture(scope="module")
async def worker(
    open_settings: Settings,
    client: Client,
    database: Database,
    keyring: Keyring,
) -> AsyncGenerator[None]:
    async with working(open_settings, client, database, keyring):
        yield
