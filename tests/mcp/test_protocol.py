"""POST /mcp: who may call, from where, with what, in both generations of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from settings import Settings
from tests.api_server import Api, Person, running
from tests.mcp.clients import MODES, Agent, connected

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPTED = {"accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("mode", MODES)
async def test_both_generations_of_the_protocol_list_and_call_tools(
    api: Api, person: Person, mode: str
) -> None:
    async with connected(api.url, person.secret, mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"lookup_ip", "run_workflow", "search_docs"} <= names
    answer = await Agent(api.url, person.secret, mode).call("lookup_ip", ip="8.8.8.8")
    assert answer["location"]["country_code"] == "US"


async def test_the_two_speak_different_versions(api: Api, person: Person) -> None:
    versions: list[str] = []
    for mode in MODES:
        async with connected(api.url, person.secret, mode) as client:
            versions.append(str(client.protocol_version))
    assert versions == ["2026-07-28", "2025-11-25"]


@pytest.mark.parametrize("mode", MODES)
async def test_no_process_remembers_a_client(
    api: Api, open_settings: Settings, person: Person, mode: str
) -> None:
    async with running(open_settings) as other, connected(api.url, person.secret, mode) as client:
        await client.list_tools()
        http = await other.client(Authorization=f"Bearer {person.secret}", **ACCEPTED)
        call = {"method": "tools/call", "params": {"name": "get_credits", "arguments": {}}}
        assert '"balance\\":100' in (await http.post("/mcp", json={**LIST, **call})).text


async def test_an_api_key_may_come_as_x_api_key(api: Api, person: Person) -> None:
    http = await api.client(**{"X-API-Key": person.secret}, **ACCEPTED)
    assert (await http.post("/mcp", json=LIST)).status_code == 200


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer vedette_live_nonsense"}], ids=["none", "bad"]
)
async def test_without_a_valid_key_nothing_is_told(api: Api, headers: dict[str, str]) -> None:
    http = await api.client(**headers, **ACCEPTED)
    response = await http.post("/mcp", json=LIST)
    assert response.status_code == 401
    assert 'oauth-protected-resource/mcp"' in response.headers["www-authenticate"]
    assert "lookup" not in response.text


async def test_a_session_is_no_key(api: Api, person: Person) -> None:
    response = await person.session.post("/mcp", json=LIST, headers=ACCEPTED)
    assert (response.status_code, response.json()["code"]) == (403, "api_key_required")


async def test_a_key_that_is_revoked_meanwhile_is_refused(api: Api, person: Person) -> None:
    await Agent(api.url, person.secret).call("get_credits")
    [key] = (await person.session.get("/api/keys")).json()["keys"]
    assert (await person.session.delete(f"/api/keys/{key['id']}")).status_code == 200
    response = await person.key.post("/mcp", json=LIST, headers=ACCEPTED)
    assert response.status_code == 401


ORIGINS = [
    ("https://evil.example", 403),
    ("null", 403),
    ("http://[", 403),
    ("http://localhost.evil.example", 403),
    ("http://localhost:3000", 200),
    ("http://127.0.0.1:8000", 200),
]


@pytest.mark.parametrize(("origin", "status"), ORIGINS)
async def test_pages_of_other_sites_may_not_call(person: Person, origin: str, status: int) -> None:
    response = await person.key.post("/mcp", json=LIST, headers={**ACCEPTED, "origin": origin})
    assert response.status_code == status
    if status == 403:
        assert response.json()["code"] == "forbidden_origin"


async def test_a_name_that_is_not_the_services_is_refused(person: Person) -> None:
    response = await person.key.post("/mcp", json=LIST, headers={**ACCEPTED, "host": "evil.example"})
    assert (response.status_code, response.json()["code"]) == (400, "unknown_host")


async def test_where_every_name_is_ours_a_page_calls_its_own_alone(open_settings: Settings) -> None:
    async with running(open_settings, allowed_hosts=("*",)) as api:
        person = await api.person()
        for origin, status in (("http://any.example", 200), ("http://other.example", 403)):
            headers = {**ACCEPTED, "host": "any.example", "origin": origin}
            response = await person.key.post("/mcp", json=LIST, headers=headers)
            assert response.status_code == status


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "too large": ({"content": b'"' + b"x" * 1024 * 1024 + b'"'}, 413, "body_too_large"),
    "no JSON": ({"content": b"{"}, 400, "invalid_json"),
    "too deep": ({"content": b"[" * 200 + b"]" * 200}, 400, "too_deep"),
    "another type": (
        {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "unsupported_media_type",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_bodies_are_held_to_the_rules_of_all_routes(person: Person, case: str) -> None:
    sent, status, code = REFUSED[case]
    headers = {"content-type": "application/json", **ACCEPTED, **sent.get("headers", {})}
    response = await person.key.post("/mcp", content=sent["content"], headers=headers)
    assert (response.status_code, response.json()["code"]) == (status, code)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_there_are_no_sessions_to_listen_to_or_to_end(person: Person, method: str) -> None:
    response = await person.key.request(method, "/mcp")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_unknown_tools_and_methods_and_what_is_no_message_are_refused(
    agent: Agent, person: Person
) -> None:
    assert await agent.refused("fly") == "Unknown tool: fly"
    for message in ({"nonsense": 1}, [LIST], "text"):
        response = await person.key.post("/mcp", json=message, headers=ACCEPTED)
        assert (response.status_code, response.json()["code"]) == (400, "invalid_input")
    response = await person.key.post("/mcp", json={**LIST, "method": "fly"}, headers=ACCEPTED)
    assert '"code":-32601' in response.text


async def test_many_clients_at_once_get_their_own_answers(api: Api) -> None:
    persons = [await api.person(credits=number) for number in range(10)]

    async def balance(person: Person) -> int:
        return (await Agent(api.url, person.secret).call("get_credits"))["balance"]

    assert await asyncio.gather(*map(balance, persons)) == list(range(10))


@pytest.mark.parametrize("id", [1.5, True, None, [1], {}])
async def test_a_request_whose_id_is_none_is_refused_not_left_without_an_answer(
    api: Api, person: Person, id: Any
) -> None:
    http = await api.client(Authorization=f"Bearer {person.secret}", **ACCEPTED)
    response = await http.post("/mcp", json=LIST | {"id": id})
    [error] = response.json()["errors"]
    assert (response.status_code, error["pointer"], error["code"]) == (400, "/id", "wrong_type")


async def test_a_boolean_is_no_number(api: Api, person: Person) -> None:
    agent = Agent(api.url, person.secret)
    assert "- limit: " in await agent.refused("list_workflows", limit=True)
