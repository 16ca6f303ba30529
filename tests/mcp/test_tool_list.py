"""The tools as clients see them: to change a name or description changes what models do with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api_server import Api, Person
from tests.mcp.clients import MODES, connected

SNAPSHOT = Path(__file__).with_name("tools.json")
LOOKUPS = {
    "lookup_ip": "ip", "lookup_breach": "email", "lookup_validate": "email", "lookup_email": "email",
    "lookup_phone": "phone", "lookup_domain": "domain", "lookup_username": "username",
    "lookup_websearch": "query", "lookup_company": "company", "lookup_darkweb": "query",
}  # fmt: skip


@pytest.fixture(scope="module")
async def listed(api: Api) -> list[dict[str, Any]]:
    person = await api.person()
    async with connected(api.url, person.secret) as client:
        tools = (await client.list_tools()).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


def test_the_list_is_the_one_that_was_agreed(listed: list[dict[str, Any]]) -> None:
    assert listed == json.loads(SNAPSHOT.read_text()), (
        "The tools have changed. If that is meant: python -m tests.mcp.snapshot"
    )


@pytest.mark.parametrize("mode", MODES)
async def test_both_generations_see_the_same_tools(
    api: Api, person: Person, mode: str, listed: list[dict[str, Any]]
) -> None:
    async with connected(api.url, person.secret, mode) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [tool["name"] for tool in listed]


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_needs_its_target_alone_which_comes_first(listed: list[dict[str, Any]], name: str) -> None:
    [tool] = [tool for tool in listed if tool["name"] == name]
    schema = tool["inputSchema"]
    assert schema["required"] == [LOOKUPS[name]]
    assert next(iter(schema["properties"])) == LOOKUPS[name]


def test_every_tool_says_what_it_does_takes_and_gives(listed: list[dict[str, Any]]) -> None:
    for tool in listed:
        assert tool["description"] and tool["title"], tool["name"]
        assert {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} <= set(
            tool["annotations"]
        )
        assert tool["outputSchema"]["properties"], tool["name"]
        assert tool["inputSchema"]["additionalProperties"] is False
        for name, argument in tool["inputSchema"].get("properties", {}).items():
            assert argument.get("description"), (tool["name"], name)


def test_what_changes_something_is_not_called_read_only(listed: list[dict[str, Any]]) -> None:
    writing = {tool["name"] for tool in listed if not tool["annotations"]["readOnlyHint"]}
    assert writing == {
        "create_contact_list", "create_monitor", "run_monitor", "create_workflow", "update_workflow",
        "run_workflow", "retry_workflow_run", "start_bulk_job",
    }  # fmt: skip


def test_the_list_leaves_a_model_room_to_think(listed: list[dict[str, Any]]) -> None:
    assert len(json.dumps(listed, separators=(",", ":"))) < 64 * 1024
