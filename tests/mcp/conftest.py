"""An agent with a key of an account, and the service that it works with."""

from __future__ import annotations

import pytest

from tests.api_server import Api, Person
from tests.automations.conftest import api, client, notifier, open_settings
from tests.mcp.clients import Agent

__all__ = ["api", "client", "notifier", "open_settings"]


@pytest.fixture
async def person(api: Api) -> Person:
    return await api.person(credits=100)


@pytest.fixture
def agent(api: Api, person: Person) -> Agent:
    return Agent(api.url, person.secret)
