"""The `vedette` command as somebody with a key runs it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.api_server import Api, Person
from tests.stacks import vedette

Command = Callable[..., Awaitable[subprocess.CompletedProcess[str]]]
Json = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
async def person(api: Api) -> Person:
    return await api.person(credits=1000)


@pytest.fixture(scope="module")
def command(api: Api, person: Person, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Runs a command with the person's key, in a process of its own."""
    data = tmp_path_factory.mktemp("nothing")

    async def run(*arguments: str, **names: str) -> subprocess.CompletedProcess[str]:
        names = {"VEDETTE_URL": api.url, "VEDETTE_API_KEY": person.secret, **names}
        return await asyncio.to_thread(vedette, data, *arguments, **names)

    return run


@pytest.fixture(scope="module")
def read(command: Command) -> Json:
    """Return what a command that goes well prints with --json."""

    async def run(*arguments: str) -> Any:
        done = await command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
