"""Workflows that run workflows, and what came of their runs."""

from __future__ import annotations

from typing import Any

from tests.api_server import Person
from tests.automations.engine import until

JSONObject = dict[str, Any]


def running_step(workflow_id: str, **more: Any) -> JSONObject:
    given = more.pop("input", "{{ trigger }}")
    return {"id": "child", "type": "workflow", "config": {"workflow_id": workflow_id, "input": given}, **more}


async def begin(person: Person, workflow: JSONObject, given: Any = None) -> str:
    answer = await person.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": given})
    assert answer.status_code == 202, answer.text
    return answer.json()["run_id"]


async def finish(person: Person, workflow: JSONObject, given: Any = None) -> JSONObject:
    """Run a workflow to its end."""
    return await ended(person, await begin(person, workflow, given))


async def ended(person: Person, run_id: str) -> JSONObject:
    async def look() -> JSONObject | None:
        view = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
        return view if view["completed_at"] else None

    return await until(look)


async def runs_of(person: Person, workflow: JSONObject) -> list[JSONObject]:
    found = await person.key.get("/api/workflows/runs", params={"workflow_id": workflow["id"], "limit": 100})
    return found.json()["runs"]
