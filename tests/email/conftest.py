"""The API with its sources about people on loopback."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from database import Database
from settings import Settings
from tests.api_server import Api, Person
from tests.email.sources import Sources, running_with, sources_on_loopback


@pytest.fixture
async def sources(database: Database) -> AsyncGenerator[Sources]:
    async with database.connection() as connection:
        await connection.execute("truncate lookup_answers, provider_states, suppressions")
    async with sources_on_loopback() as sources:
        yield sources


@pytest.fixture
async def people_api(settings: Settings, sources: Sources) -> AsyncGenerator[Api]:
    async with running_with(sources, settings) as api:
        yield api


@pytest.fixture
async def person(people_api: Api) -> Person:
    return await people_api.person(credits=100)
