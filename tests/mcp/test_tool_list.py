"""The tools as clients see them: to change a name or description changes what models do with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from models.automations import templates
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
        "create_contact_list", "add_contact_list_targets", "remove_contact_list_targets",
        "delete_contact_list", "create_monitor", "run_monitor", "set_monitor_status", "cancel_monitor_run",
        "delete_monitor", "create_workflow", "update_workflow", "set_workflow_status", "delete_workflow",
        "run_workflow", "retry_workflow_run", "cancel_workflow_run", "start_bulk_job", "cancel_bulk_job",
        "create_webhook", "delete_webhook",
    }  # fmt: skip


def test_what_takes_something_away_is_called_destructive(listed: list[dict[str, Any]]) -> None:
    taking = [tool for tool in listed if tool["name"].startswith(("delete_", "remove_", "cancel_"))]
    assert len(taking) == 8 and all(tool["annotations"]["destructiveHint"] for tool in taking)


def test_the_list_leaves_a_model_room_to_think(listed: list[dict[str, Any]]) -> None:
    read = [{name: tool[name] for name in tool if name != "outputSchema"} for tool in listed]
    assert len(json.dumps(listed, separators=(",", ":"))) < 84 * 1024
    assert len(json.dumps(read, separators=(",", ":"))) < 56 * 1024


@pytest.mark.parametrize("name", ["create_workflow", "update_workflow"])
def test_a_definition_has_its_schema(listed: list[dict[str, Any]], name: str) -> None:
    [tool] = [tool for tool in listed if tool["name"] == name]
    argument = "definition" if name == "create_workflow" else "changes"
    schema = tool["inputSchema"]["properties"][argument]
    assert "$ref" not in json.dumps(schema), "many clients do not follow references"
    accepts = Draft202012Validator({"type": "object", "properties": schema["properties"]}).is_valid
    for template in templates.load_templates().values():
        assert accepts(template.document()), template.id
    assert not accepts({"steps": [{"id": "a", "type": "fly", "config": {}}]})
    assert not accepts({"steps": [{"id": "a", "type": "webhook", "config": {}}]})
    assert not accepts({"trigger": {"type": "webhook", "signature": {"scheme": "none", "secret": "S"}}})
