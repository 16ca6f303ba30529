"""Workflows and runs, made over HTTP."""

from typing import Any

import httpx

from database import Database
from tests.api_server import Person


async def create(person: Person, steps: list[dict[str, Any]] | None = None, **fields: Any) -> str:
    """A workflow; its id."""
    response = await person.key.post("/api/workflows", json={"name": "test", "steps": steps or [], **fields})
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def start(person: Person, workflow: str, payload: Any = None) -> str:
    """A run of it; its id."""
    response = await person.key.post(f"/api/workflows/{workflow}/run", json={"input": payload})
    assert response.status_code == 202, response.text
    return response.json()["run_id"]


async def finish(person: Person, workflow: str, payload: Any = None) -> dict[str, Any]:
    """A run of it, once it has ended."""
    response = await person.key.post(f"/api/workflows/{workflow}/run?wait=20", json={"input": payload})
    assert response.status_code == 200, response.text
    return response.json()


def problem(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def statuses(run: dict[str, Any]) -> dict[str, str]:
    """By step its status."""
    return {step["id"]: step["status"] for step in run["steps"]}


async def adrift(person: Person, database: Database) -> str:
    """A run of two steps that is at work, by its row, by a shift whose worker does nothing; its id."""
    steps = [
        {"id": "a", "type": "delay", "config": {"days": 1}},
        {"id": "b", "type": "delay", "config": {"days": 1}},
    ]
    run_id = await start(person, await create(person, steps))
    async with database.transaction() as connection:
        await connection.execute(
            "insert into shifts (id, worker_id) values (%(run)s, %(run)s)", {"run": run_id}
        )
        await connection.execute(
            "update run_work set status = 'running', begun = true, started_at = now(), carrier = run_id,"
            " claim_id = run_id where run_id = %s",
            (run_id,),
        )
    return run_id
