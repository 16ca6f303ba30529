"""POST /api/bulk-company-search: one flat object a company, its people in it, for one credit."""

from __future__ import annotations

from tests.api_server import Api
from tests.company.conftest import keyed_api, keyless_api, servers
from tests.company.fixture_servers import Servers

__all__ = ["keyed_api", "keyless_api", "servers"]

PATH = "/api/bulk-company-search"


async def test_a_company_is_one_object_with_its_people(keyed_api: Api, servers: Servers) -> None:
    for name in servers.providers:
        servers.say(name, "ok")
    person = await keyed_api.person(credits=100)
    alone = (await person.key.post("/api/agent/company", json={"company": "Example Bank"})).json()
    answer = (await person.key.post(PATH, json={"queries": ["Example  Bank"]})).json()
    [entry] = answer["results"]
    company = entry["company"]
    assert entry.keys() == {"query", "company"}
    assert company.items() >= alone["profile"].items()
    assert (company["size"], company["people"]) == (alone["profile"]["employee_count"], alone["results"])
    assert alone["results"]
    assert company["sources"]["name"] == alone["sources"]["profile.name"]
    assert company["sources"]["people"] == alone["sources"]["results"]
    assert company["conflicts"]["jurisdiction"] == alone["conflicts"]["profile.jurisdiction"]
    assert (company["credits"], answer["credits_used"]) == (1, 1)


async def test_a_company_that_nobody_knows_has_fields_without_values(
    keyless_api: Api, servers: Servers
) -> None:
    servers.say("wikidata", "empty")
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json={"queries": ["Example Bank"]})).json()
    company = answer["results"][0]["company"]
    assert (company["name"], company["industry"], company["size"]) == (None, None, None)
    assert (company["officers"], company["people"], company["candidates"]) == ([], [], [])


async def test_fields_are_named_as_they_stand_in_the_answer(keyless_api: Api, servers: Servers) -> None:
    for name in ("wikidata", "sec", "gleif"):
        servers.say(name, "ok")
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(f"{PATH}?fields=size,people", json={"queries": ["Example Bank"]})).json()
    company = answer["results"][0]["company"]
    assert company.keys() == {
        "name", "size", "people", "credits", "cached", "partial", "providers", "sources", "conflicts",
    }  # fmt: skip
    assert company["name"] == "Example Bank"
    assert company["size"] is not None
    assert company["sources"].keys() == {"name", "size", "people"}


async def test_the_name_that_is_always_there_may_be_named(keyless_api: Api, servers: Servers) -> None:
    servers.say("wikidata", "ok")
    person = await keyless_api.person(credits=100)
    answers = [
        await person.key.post(f"{PATH}?fields={fields}", json={"queries": ["Example Bank"]})
        for fields in ("size", "name,size")
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    without, named = [answer.json()["results"][0]["company"].keys() for answer in answers]
    assert without == named
