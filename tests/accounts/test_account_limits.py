"""What GET /api/limits and GET /api/version say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib.metadata import version

import pytest

from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.workflows import create


@pytest.fixture
async def person(settings: Settings) -> AsyncGenerator[Person]:
    bounds = {"max_workflows": 7, "max_unfinished_runs": 6, "max_descendants": 5, "max_streams": 4}
    async with running(settings, **bounds, max_ingest_waits=3) as api:
        yield await api.person(scopes=["credits"])


async def test_an_account_sees_its_bounds_as_the_operator_has_set_them(person: Person) -> None:
    assert (await person.key.get("/api/limits")).json() == {
        "workflows": {"limit": 7, "used": 0},
        "unfinished_runs": {"limit": 6, "used": 0},
        "descendants": {"limit": 5},
        "streams": {"limit": 4},
        "ingest_waits": {"limit": 3},
    }


async def test_workflows_that_are_not_deleted_and_runs_that_have_not_ended_are_counted(api: Api) -> None:
    person = await api.person()
    made = [await create(person) for _ in range(3)]
    for _ in range(2):
        await person.key.post(f"/api/workflows/{made[0]['id']}/run", json={"input": {}})
    await person.key.delete(f"/api/workflows/{made[1]['id']}")
    found = (await person.key.get("/api/limits")).json()
    assert (found["workflows"]["used"], found["unfinished_runs"]["used"]) == (2, 2)
    stranger = (await (await api.person()).key.get("/api/limits")).json()
    assert (stranger["workflows"]["used"], stranger["unfinished_runs"]["used"]) == (0, 0)


async def test_the_version_of_the_package_and_that_of_its_interface_are_told(api: Api) -> None:
    person = await api.person(scopes=["credits"])
    found = (await person.key.get("/api/version")).json()
    assert found == {"name": "vedette", "version": version("vedette"), "api_version": "2.0.0"}
    assert (await api.http.get("/openapi.json")).json()["info"]["version"] == found["api_version"]
    assert (await api.http.get("/", headers={"Accept": "application/json"})).json()["version"] == found[
        "version"
    ]


@pytest.mark.parametrize("path", ["/api/limits", "/api/version"])
async def test_they_need_a_credential(api: Api, path: str) -> None:
    assert (await api.http.get(path)).status_code == 401
