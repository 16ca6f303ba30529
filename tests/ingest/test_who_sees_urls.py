"""Ingest URLs are credentials: who may not see workflows sees none of them, on any route."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.accounts.keys import ALL_SCOPES
from tests.api_server import Api, Person
from tests.automations.workflows import create, post
from tests.mcp.clients import Agent

OTHERS = sorted(ALL_SCOPES - {"workflows"})


def token_of(workflow: dict[str, Any]) -> str:
    return workflow["webhook_url"].rpartition("/")[2]


@pytest.fixture
async def workflow(api: Api, person: Person) -> dict[str, Any]:
    """One that has run, was changed, and whose runs an endpoint is told of."""
    await person.key.post("/api/webhooks", json={"url": "https://example.com/", "events": ["*"]})
    made = await create(person)
    await post(api, made["webhook_url"], json={})
    return (await person.key.patch(f"/api/workflows/{made['id']}", json={"name": "changed"})).json()


def reading_paths(api: Api, workflow: dict[str, Any]) -> list[str]:
    """Every path of the API that can be read to its end, with the workflow's id where one belongs."""
    found = [path for path, operations in api.app.openapi()["paths"].items() if "get" in operations]
    filled = [path.replace("{workflow_id}", workflow["id"]).replace("{version}", "1") for path in found]
    return [path for path in filled if path.startswith("/api/") and "{" not in path and path != "/api/stream"]


async def test_a_key_without_the_scope_workflows_is_shown_no_ingest_url(
    api: Api, person: Person, workflow: dict[str, Any]
) -> None:
    made = await person.session.post("/api/keys", json={"name": "others", "scopes": OTHERS})
    other = await api.client(Authorization=f"Bearer {made.json()['key']}")
    paths = reading_paths(api, workflow)
    assert {"/api/webhooks/deliveries", f"/api/workflows/{workflow['id']}/versions"} <= set(paths)
    for path in paths:
        assert token_of(workflow) not in (await other.get(path)).text, path


SHOWING = ["/api/workflows", "/api/workflows/{id}"]


async def test_only_the_workflow_itself_shows_its_ingest_url(
    api: Api, person: Person, workflow: dict[str, Any]
) -> None:
    showing = {path.format(id=workflow["id"]) for path in SHOWING}
    for path in reading_paths(api, workflow):
        shown = token_of(workflow) in (await person.key.get(path)).text
        assert shown == (path in showing), path


async def test_no_agent_is_shown_the_ingest_url_of_a_workflow_that_is_hidden_or_out_of_scope(
    api: Api, person: Person, workflow: dict[str, Any]
) -> None:
    await person.key.patch(f"/api/workflows/{workflow['id']}", json={"agents": False})
    made = await person.session.post("/api/keys", json={"name": "others", "scopes": OTHERS})
    for secret in (person.secret, made.json()["key"]):
        agent = Agent(api.url, secret)
        for tool, arguments in {
            "list_workflows": {},
            "get_workflow": {"workflow_id": workflow["id"]},
        }.items():
            result = await agent.result(tool, **arguments)
            assert token_of(workflow) not in json.dumps(result.model_dump(mode="json"))
