"""An API over a worker, for tests that follow runs from outside."""

from typing import Any, Protocol

import pytest

from tests.api_server import Api, Person
from tests.automations.conftest import api, client, open_settings, worker
from tests.automations.engine import until
from tests.runs.workflows import statuses

__all__ = ["api", "client", "open_settings", "worker"]


@pytest.fixture(scope="module")
async def person(api: Api) -> Person:
    return await api.person(credits=100)


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
