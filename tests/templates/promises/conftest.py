"""Copies of templates over sources that answer, fail and come back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from temporalio.client import Client

from settings import ProviderSettings
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint
from tests.templates.copies import copy, run, sent
from tests.templates.promises.world import World, a_world, all_off

Alerts = Callable[[Any], Awaitable[list[str]]]
"""Starts a run with this input: what Slack is told."""
Copied = Callable[..., Awaitable[Alerts]]
"""Makes a copy of the template with this id."""


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World]:
    async with a_world(tmp_path_factory.mktemp("certificates")) as world:
        yield world


@pytest.fixture(scope="module")
def providers(world: World) -> dict[str, ProviderSettings]:
    return all_off() | world.providers


@pytest.fixture(scope="module")
def more_providers() -> dict[str, ProviderSettings]:
    return {}


@pytest.fixture
def copied(api: Api, person: Person, worker: Client, receiver: Endpoint) -> Copied:
    async def make(template_id: str, **fields: Any) -> Alerts:
        made = await copy(person, template_id, **fields)

        async def alerts(payload: Any) -> list[str]:
            done = await run(api, person, made, payload)
            assert (done["status"], done["error"]) == ("completed", None)
            return [body["text"] for _, body in sent(receiver)]

        return alerts

    return make
