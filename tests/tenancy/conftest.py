"""The API with a model that says hello, and makes a list when it is asked for one."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from settings import Settings
from tests.api_server import Api, running
from tests.assistant.model_server import Call, Compute, Request, Say, call, scripted_model
from tests.tenancy.makers import CARD


def answer(request: Request) -> Say | Call:
    last = request["messages"][-1]
    asked = last["role"] == "user" and "list" in last["content"]
    return call("create_contact_list", **CARD) if asked else Say("Hello.")


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with scripted_model() as model:
        model.script = [Compute(answer)]
        async with running(settings, chat_base_url=model.url, chat_model="scripted") as api:
            yield api
