"""The API with the sources of companies on loopback."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from database import Database
from settings import Settings
from tests.api_server import Api, running
from tests.company.fixture_servers import Servers, serving, with_keys


@pytest.fixture
async def servers(database: Database) -> AsyncGenerator[Servers]:
    async with database.connection() as connection:
        await connection.execute("truncate lookup_answers, provider_states, source_windows, source_turns")
    async with serving("company") as servers:
        yield servers


@pytest.fixture
async def keyless_api(settings: Settings, servers: Servers) -> AsyncGenerator[Api]:
    async with running(settings, providers=servers.providers, local_only=False) as api:
        yield api


@pytest.fixture
async def keyed_api(settings: Settings, servers: Servers) -> AsyncGenerator[Api]:
    async with running(settings, providers=with_keys(servers), local_only=False) as api:
        yield api
