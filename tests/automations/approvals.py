"""Runs that wait for somebody, and how they are answered."""

from __future__ import annotations

from typing import Any

import httpx

from database import Database
from tests.api_server import Api, Person
from tests.automations.engine import until
from tests.automations.workflows import create, post


def wait(step_id: str = "approval", **config: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "wait", "config": config}


async def begin(person: Person, steps: list[dict[str, Any]], given: Any = None, **fields: Any) -> str:
    made = await create(person, steps=steps, **fields)
    answer = await person.key.post(f"/api/workflows/{made['id']}/run", json={"input": given})
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


async def shown(person: Person, run_id: str) -> dict[str, Any]:
    return (await person.key.get(f"/api/workflows/runs/{run_id}")).json()


async def become(person: Person, run_id: str, status: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        view = await shown(person, run_id)
        return view if view["status"] == status else None

    return await until(look)


async def resume(api: Api, url: str, **request: Any) -> httpx.Response:
    return await post(api, url, **request)


async def parked(database: Database, run_id: str) -> None:
    async def look() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select from run_work where run_id = %s and status = 'waiting'",
                (run_id,),
            )
            return await cursor.fetchone() is not None

    await until(look)
