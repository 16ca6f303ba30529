"""Bulk actions, as a client of the API makes and follows them."""

from typing import Any

import httpx

from tests.api_server import Person
from tests.automations.engine import transform, until
from tests.runs.workflows import create, finish

BULK = "/api/workflows/runs/bulk"
ACTIONS = "/api/bulk-actions"


async def create_failing_runs(person: Person, runs: int, **fields: Any) -> tuple[str, list[str]]:
    """A workflow whose runs fail, and so many of them."""
    workflow = await create(person, [transform("broken", "sum(trigger)")], **fields)
    return workflow, [(await finish(person, workflow, "text"))["id"] for _ in range(runs)]


async def make_dry_run(client: httpx.AsyncClient, filter: dict[str, Any], **body: Any) -> dict[str, Any]:
    """Make a dry run."""
    body = {"action": "retry"} | body
    response = await client.post(BULK, json={"filter": filter, "dry": True} | body)
    assert response.status_code == 200, response.text
    return response.json()


async def confirm_action(client: httpx.AsyncClient, filter: dict[str, Any], confirm: str, **body: Any):
    """Send the request that does it."""
    return await client.post(BULK, json={"filter": filter, "confirm": confirm} | {"action": "retry"} | body)


async def wait_for_action(person: Person, action_id: str) -> dict[str, Any]:
    """Wait for the end of an action."""

    async def look() -> dict[str, Any] | None:
        action = (await person.key.get(f"{ACTIONS}/{action_id}")).json()
        return action if action["completed_at"] else None

    return await until(look)


async def wait_for_run(person: Person, run_id: str) -> None:
    """Wait for the end of a run."""

    async def look() -> bool:
        return (await person.key.get(f"/api/workflows/runs/{run_id}")).json()["completed_at"] is not None

    await until(look)


async def retries_of(person: Person, workflow: str) -> list[str]:
    """Return the ids of the runs of which a workflow has retries."""
    found = (
        await person.key.get("/api/workflows/runs", params={"workflow_id": workflow, "limit": 100})
    ).json()
    return sorted(run["restarted_from"] for run in found["runs"] if run["restarted_from"])


async def retry_all(person: Person, filter: dict[str, Any]) -> str:
    """Retry the runs of a filter; return the action's id."""
    response = await confirm_action(person.key, filter, (await make_dry_run(person.key, filter))["confirm"])
    assert response.status_code == 202, response.text
    return response.json()["id"]
