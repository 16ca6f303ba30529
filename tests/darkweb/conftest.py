"""The API with the sources of the dark web on loopback."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from database import Database
from providers.datasets import installed
from settings import Settings
from tests.api_server import Api, Person, running
from tests.company.fixture_servers import Servers, serving
from tests.darkweb.victims import install_victims, victim


@pytest.fixture
async def servers(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Servers]:
    monkeypatch.setattr(installed, "_CHECK_SECONDS", 0.0)  # so that a list is noticed at once
    async with database.connection() as connection:
        await connection.execute("truncate lookup_answers, provider_states, source_windows, source_turns")
    async with serving("darkweb") as servers:
        yield servers


@pytest.fixture
async def darkweb_api(settings: Settings, servers: Servers) -> AsyncGenerator[Api]:
    install_victims(settings.data, victim())
    async with running(settings, providers=servers.providers, local_only=False) as api:
        yield api


@pytest.fixture
async def person(darkweb_api: Api) -> Person:
    return await darkweb_api.person(credits=100)
