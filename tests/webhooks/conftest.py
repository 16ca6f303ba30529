"""An API that may reach receivers on this machine, and somebody who has webhooks there."""

from collections.abc import AsyncGenerator
from ipaddress import ip_network

import pytest

from database import Database
from settings import Settings
from tests.api_server import Api, running


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with running(settings, allow_private_networks=(ip_network("127.0.0.1/32"),)) as api:
        yield api


@pytest.fixture
async def nothing_waits(database: Database) -> None:
    """Deliveries that earlier tests left are not claimed."""
    async with database.connection() as connection:
        await connection.execute("delete from delivery_work")
