"""Tools that look up do what their routes do, with the same scopes, limits, credits and keys."""

from __future__ import annotations

from typing import Any

import pytest

from settings import Rate, Settings
from tests.api_server import Api, Person, running
from tests.mcp.clients import Agent

PHONE = "+14155552671"


async def test_a_lookup_answers_as_its_route_without_what_is_unknown(agent: Agent, person: Person) -> None:
    answer = await agent.call("lookup_ip", ip="8.8.8.8")
    told = (await person.key.post("/api/agent/ip", json={"ip": "8.8.8.8"})).json()
    assert answer["ip_address"] == "8.8.8.8"
    assert answer["location"] == {
        name: value for name, value in told["location"].items() if value is not None
    }
    assert answer["credits"] == 0 and "sources" not in answer and "malware" not in answer


async def test_in_full_it_has_its_sources_and_the_unknown_too(agent: Agent) -> None:
    answer = await agent.call("lookup_ip", ip="8.8.8.8", full=True)
    assert "dbip" in str(answer["sources"]) and "malware" in answer


async def test_fields_are_chosen_as_in_the_route(agent: Agent) -> None:
    answer = await agent.call("lookup_ip", ip="193.0.6.139", fields=["location.city"])
    assert answer["location"] == {"city": "Amsterdam"}
    assert "asn" not in answer


WRONG: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a target": ("lookup_ip", {"ip": "nonsense"}, "invalid_input", "- ip: This is not an IP address"),
    "a field": ("lookup_ip", {"ip": "8.8.8.8", "fields": ["locatoin"]}, "invalid_input", "- fields: "),
    "no target": ("lookup_ip", {}, "invalid_input", "- ip: Field required"),
    "a name": ("lookup_ip", {"ip": "8.8.8.8", "feilds": []}, "invalid_input", "- feilds: there is no such"),
    "a type": ("lookup_websearch", {"query": "x", "limit": "many"}, "invalid_input", "- limit: Input should"),
    "a key": (
        "lookup_phone", {"phone": PHONE, "idempotency_key": "a b"}, "invalid_idempotency_key", "What to do",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_arguments_are_named_with_what_to_do(agent: Agent, case: str) -> None:
    tool, arguments, code, told = WRONG[case]
    text = await agent.refused(tool, **arguments)
    assert text.startswith(f"{code}:") and told in text and "What to do: " in text
    assert "nonsense" not in text and "locatoin" not in text and "many" not in text


async def test_a_key_without_the_scope_is_told_which_it_lacks(api: Api) -> None:
    person = await api.person(scopes=["workflows"])
    text = await Agent(api.url, person.secret).refused("lookup_ip", ip="8.8.8.8")
    assert text.startswith("insufficient_scope: The key lacks the scope lookups.")


async def test_a_lookup_is_paid_once_for_a_key(agent: Agent, person: Person) -> None:
    for _ in range(2):
        answer = await agent.call("lookup_phone", phone=PHONE, idempotency_key="once")
        assert answer["credits"] == 1
    assert (await person.key.get("/api/credits")).json()["balance"] == 99


async def test_without_credits_a_tool_says_what_is_needed(api: Api) -> None:
    person = await api.person(credits=0)
    text = await Agent(api.url, person.secret).refused("lookup_phone", phone=PHONE)
    assert text.startswith("insufficient_credits: ") and "What to do: " in text


async def test_tools_and_routes_share_one_limit(open_settings: Settings) -> None:
    async with running(open_settings, limit_ip=Rate(2, 600)) as api:
        person = await api.person()
        agent = Agent(api.url, person.secret)
        await agent.call("lookup_ip", ip="8.8.8.8")
        assert (await person.key.post("/api/agent/ip", json={"ip": "1.1.1.1"})).status_code == 200
        text = await agent.refused("lookup_ip", ip="1.1.1.1")
        assert text.startswith("rate_limited: ") and "Try again in " in text
