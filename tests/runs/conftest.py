"""An API over a worker, for tests that follow runs from outside."""

from collections.abc import AsyncGenerator
from typing import Any, Protocol

import pytest
from temporalio.client import Client

from database import Database
from sealing import Keyring
from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.conftest import client, open_settings, receiver  # noqa: F401
from tests.automations.engine import until, working
from tests.runs.workflows import statuses


@pytest.fixture(scope="module")
async def api(open_settings: Settings) -> AsyncGenerator[Api]:  # noqa: F811
    async with running(open_settings) as served:
        yield served


@pytest.fixture(scope="module")
async def person(api: Api) -> Person:
    return await api.person(credits=100)


@pytest.fixture(scope="module")
async def worker(
    open_settings: Settings,  # noqa: F811
    client: Client,  # noqa: F811
    database: Database,
    keyring: Keyring,
) -> AsyncGenerator[None]:
    async with working(open_settings, client, database, keyring):
        yield


class Follow(Protocol):
    """Looks at a run until `status` is reached."""

    async def __call__(self, run_id: str, *statuses: str) -> dict[str, Any]: ...


@pytest.fixture
def follow(person: Person) -> Follow:
    async def reach(run_id: str, *statuses: str) -> dict[str, Any]:
        wanted = statuses or ("completed", "failed", "cancelled")

        async def look() -> dict[str, Any] | None:
            run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
            return run if run["status"] in wanted else None

        return await until(look)

    return reach


class FollowStep(Protocol):
    """Looks at a run until a step of it has a status."""

    async def __call__(self, run_id: str, step_id: str, status: str) -> dict[str, Any]: ...


@pytest.fixture
def follow_step(person: Person) -> FollowStep:
    async def reach(run_id: str, step_id: str, status: str) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            run = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
            return run if statuses(run)[step_id] == status else None

        return await until(look)

    return reach
