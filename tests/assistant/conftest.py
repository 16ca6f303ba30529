"""A person who talks with the assistant, whose model is a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from ipaddress import ip_network

import pytest
from pydantic import SecretStr

from settings import Settings
from tests.api_server import Api, Person, running
from tests.assistant.chatting import Chat
from tests.assistant.model_server import Model, scripted_model
from tests.automations.conftest import client, notifier
from tests.datasets import write_small_datasets

__all__ = ["client", "notifier"]


@pytest.fixture(scope="module")
async def model() -> AsyncGenerator[Model]:
    async with scripted_model() as served:
        yield served


@pytest.fixture(scope="module")
def open_settings(settings: Settings, model: Model) -> Settings:
    """Settings with lookup data, a model, and webhook steps that may reach this machine."""
    write_small_datasets(settings.data)
    changes = {
        "chat_base_url": model.url, "chat_model": "scripted", "chat_key": SecretStr("model-key"),
        "allow_private_networks": (ip_network("127.0.0.1/32"),),
    }  # fmt: skip
    return settings.model_copy(update=changes)


@pytest.fixture(scope="module")
async def api(open_settings: Settings) -> AsyncGenerator[Api]:
    async with running(open_settings) as api:
        yield api


@pytest.fixture
async def person(api: Api) -> Person:
    return await api.person(credits=100)


@pytest.fixture
async def chat(person: Person, model: Model) -> Chat:
    """A conversation of somebody who has agreed to the model's host."""
    model.requests.clear()
    return await Chat.begin(person)
