"""What the tests of lists share."""

from __future__ import annotations

from typing import Any

import httpx

MOUNTS = ("/api/lists", "/api/agent/lists")


async def create(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """A new list."""
    response = await client.post("/api/lists", json={"name": "a list", **body})
    assert response.status_code == 201, response.text
    return response.json()


async def add(client: httpx.AsyncClient, list_id: str, body: Any) -> dict[str, Any]:
    """Add targets to a list."""
    response = await client.post(f"/api/lists/{list_id}/targets", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def remove(client: httpx.AsyncClient, list_id: str, body: Any) -> int:
    """Remove targets from a list; how many there were."""
    response = await client.request("DELETE", f"/api/lists/{list_id}/targets", json=body)
    assert response.status_code == 200, response.text
    return response.json()["deleted"]


async def targets(client: httpx.AsyncClient, list_id: str) -> list[str]:
    """The targets of a list."""
    response = await client.get(f"/api/lists/{list_id}/targets")
    assert response.status_code == 200, response.text
    return response.json()


async def count(client: httpx.AsyncClient, list_id: str) -> int:
    """Return how many targets a list says that it has."""
    return (await client.get(f"/api/lists/{list_id}")).json()["target_count"]


def problems(response: httpx.Response) -> list[tuple[str, str]]:
    """Return what is wrong with a request, by place and code."""
    assert response.status_code == 400, response.text
    return [(error["pointer"], error["code"]) for error in response.json()["errors"]]
