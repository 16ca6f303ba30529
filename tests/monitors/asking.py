"""What the tests of the routes of monitors share: monitors made by requests, and runs that have found what a
test says, as a worker would record it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx
import orjson

from database import Database
from models.monitors import completion, queue
from models.monitors.queue import TargetResult
from tests.api_server import Person

MOUNTS = ("/api/monitors", "/api/agent/monitors")
CHANGED = {"whois.registrar": {"old": "A", "new": "B"}}
ERROR = {"code": "all_providers_failed", "message": "Every source that was asked failed."}


async def create(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """A new monitor."""
    response = await client.post("/api/monitors", json={"name": "a monitor", **body})
    assert response.status_code == 201, response.text
    return response.json()


async def watching(client: httpx.AsyncClient, *targets: str, **body: Any) -> str:
    """A new monitor of these domains; its id."""
    return (await create(client, monitor_type="domain", targets=list(targets), **body))["id"]


def problems(response: httpx.Response) -> list[tuple[str, str]]:
    """Return what is wrong with a request, by place and code."""
    assert response.status_code == 400, response.text
    return [(error["pointer"], error["code"]) for error in response.json()["errors"]]


def refused(response: httpx.Response) -> tuple[int, str]:
    """The status and the code of an error."""
    return response.status_code, response.json()["code"]


async def given(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    """Return what a GET gives."""
    response = await client.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def start(person: Person, monitor_id: str) -> str:
    """A run that was accepted; its id."""
    response = await person.key.post(f"/api/monitors/{monitor_id}/run")
    assert response.status_code == 202, response.text
    return response.json()["run_id"]


async def record(
    database: Database,
    monitor_id: str,
    run_id: str,
    found: Sequence[tuple[str, Mapping[str, Any]]],
    first: int = 0,
) -> None:
    """Record what a run that is under way has found of targets, in their order from the position `first`."""
    results: list[TargetResult] = []
    for position, (target, what) in enumerate(found, first):
        texts: dict[str, Any] = {name: orjson.dumps(value).decode() for name, value in what.items()}
        heard = "error" not in what
        results.append(TargetResult(UUID(run_id), position, UUID(monitor_id), target, heard=heard, **texts))
    async with database.transaction() as connection:
        assert all(await queue.record(connection, results))


async def run(
    person: Person,
    database: Database,
    monitor_id: str,
    found: Mapping[str, Mapping[str, Any]],
    *,
    end: bool = True,
) -> str:
    """A run that has found this of its targets, and has ended if nothing else is said; its id."""
    run_id = await start(person, monitor_id)
    await claim(database)
    await record(database, monitor_id, run_id, list(found.items()))
    if end:
        async with database.transaction() as connection:
            await completion.finish(connection, UUID(run_id))
    return run_id


async def claim(database: Database) -> None:
    """Have all runs begin that wait."""
    async with database.connection() as connection:
        await queue.claim(connection, 1_000)
