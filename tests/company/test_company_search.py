"""POST /api/agent/company: one company, never a mixture, and the people there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from providers.company.identity import WantedCompany
from providers.company.sec import SearchResult, index_companies, parse
from tests.api_server import Api
from tests.company.fixture_servers import Servers

PATH = "/api/agent/company"
QUERY = {"company": "Example Bank"}
KEYLESS = ("wikidata", "sec", "gleif")
PROFILE = {
    "name", "domain", "description", "founding_date", "industry", "company_type", "status",
    "employee_count", "revenue", "total_funding", "address", "country", "phone", "website", "logo",
    "linkedin", "twitter", "ticker", "registration_number", "jurisdiction", "sic_codes", "officers",
    "shareholders",
}  # fmt: skip


def statuses(answer: dict[str, Any]) -> dict[str, str]:
    return {report["name"]: report["status"] for report in answer["providers"]}


async def test_without_keys_three_registers_describe_one_company(keyless_api: Api, servers: Servers) -> None:
    for name in KEYLESS:
        servers.say(name, "ok")
    person = await keyless_api.person(credits=100)
    response = await person.key.post(PATH, json=QUERY)
    assert response.status_code == 200, response.text
    answer = response.json()
    profile = answer["profile"]
    assert answer["company"] == "Example Bank"
    assert profile.keys() == PROFILE
    assert (profile["name"], profile["sic_codes"], profile["registration_number"]) == (
        "Example Bank", ["6022"], "01234567",
    )  # fmt: skip
    assert (profile["total_funding"], answer["candidates"]) == (None, [])
    assert answer["sources"]["profile.employee_count"] == ["wikidata"]
    assert answer["conflicts"]["profile.jurisdiction"] == {"sec": "DE", "gleif": "GB"}
    assert statuses(answer) == {"wikidata": "ok", "sec": "ok", "gleif": "ok"}


async def test_one_country_in_two_spellings_is_no_conflict(keyless_api: Api, servers: Servers) -> None:
    for name in KEYLESS:
        servers.say(name, "ok")
    labels = servers.exchanges["wikidata"][-1]["body"]["entities"]
    labels["Q145"]["labels"]["en"]["value"] = "United Kingdom of Great Britain and Northern Ireland"
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert answer["profile"]["country"] == "United Kingdom"
    assert sorted(answer["sources"]["profile.country"]) == ["gleif", "wikidata"]
    assert "profile.country" not in answer["conflicts"]


async def test_without_a_source_of_people_those_who_run_it_are_the_people(
    keyless_api: Api, servers: Servers
) -> None:
    for name in KEYLESS:
        servers.say(name, "ok")
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert answer["results"] == [
        {"email": None, "name": "Ada Sample", "role": "chief executive officer", "linkedin": None},
        {"email": None, "name": "Grace Sample", "role": "chairperson", "linkedin": None},
    ]
    assert (answer["total"], answer["credits"]) == (2, 2)
    assert answer["sources"]["results"] == ["wikidata"]


async def test_keyed_sources_are_asked_by_the_ids_that_the_first_round_found(
    keyed_api: Api, servers: Servers
) -> None:
    for name in (*KEYLESS, "companieshouse", "abstractcompany", "huntercompany", "hunterdomain"):
        servers.say(name, "ok")
    person = await keyed_api.person(credits=100)
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert set(statuses(answer).values()) == {"ok"}
    assert [one["email"] for one in answer["results"]] == ["ada@example.com", "g.sample@example.com"]
    profile = answer["profile"]
    assert [one["nationality"] for one in profile["officers"]] == ["British"]
    assert profile["shareholders"][0]["natures_of_control"] == ["ownership-of-shares-75-to-100-percent"]
    assert profile["sic_codes"] == ["64191"]


async def test_the_limit_cuts_the_people_and_the_price(keyed_api: Api, servers: Servers) -> None:
    servers.say("wikidata", "empty")
    servers.say("hunterdomain", "ok")
    person = await keyed_api.person(credits=100)
    answer = (await person.key.post(PATH, json={"query": "example.com", "limit": 1})).json()
    assert [one["email"] for one in answer["results"]] == ["ada@example.com"]
    assert (answer["total"], answer["credits"]) == (1, 1)


async def test_people_who_are_not_wanted_cost_nothing(keyed_api: Api, servers: Servers) -> None:
    for name in servers.providers:
        servers.say(name, "ok")
    person = await keyed_api.person(credits=100)
    answer = (await person.key.post(f"{PATH}?fields=profile", json={"company": "Example Bank"})).json()
    assert (answer["profile"]["name"], answer["credits"], "results" in answer) == (
        "EXAMPLE BANK PLC",
        0,
        False,
    )


async def test_two_companies_of_one_name_are_candidates_and_nothing_else(
    keyed_api: Api, servers: Servers
) -> None:
    for name, fixture in (("wikidata", "two_of_one_name"), ("sec", "empty"), ("gleif", "empty")):
        servers.say(name, fixture)
    servers.say("companieshouse", "empty")
    servers.exchanges["sec"][0]["body"] = {}
    person = await keyed_api.person(credits=100)
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert answer["profile"] is None
    assert (answer["results"], answer["total"], answer["credits"]) == ([], 0, 0)
    assert [(one["name"], one["wikidata"], one["score"]) for one in answer["candidates"]] == [
        ("Example Bank", "Q900001", 0.9),
        ("Example Bank", "Q900003", 0.9),
    ]
    assert servers.asked["abstractcompany"] == servers.asked["hunterdomain"] == 0


async def test_a_domain_names_its_company(keyless_api: Api, servers: Servers) -> None:
    servers.say("wikidata", "by_domain")
    for name in ("sec", "gleif"):
        servers.say(name, "ok")
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json={"company": "www.EXAMPLE.com"})).json()
    assert (answer["company"], answer["profile"]["name"]) == ("example.com", "Example Bank")
    assert answer["profile"]["registration_number"] == "01234567"


async def test_a_register_that_knows_another_company_of_the_name_is_not_mixed_in(
    keyless_api: Api, servers: Servers
) -> None:
    servers.say("wikidata", "ok")
    servers.say("sec", "ok")
    listed = servers.say("gleif", "ok")[0]
    other = copy.deepcopy(listed["body"]["data"][1])
    other["id"] = other["attributes"]["lei"] = "5493000ANOTHERBANK01"
    listed["body"]["data"] = [other]
    servers.exchanges["gleif"][1]["status"] = 404
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert answer["profile"]["name"] == "Example Bank"
    assert answer["profile"]["registration_number"] is None
    assert statuses(answer)["gleif"] == "empty"


@pytest.mark.parametrize("silent", KEYLESS)
async def test_while_a_register_is_silent_there_are_candidates_and_never_a_profile(
    silent: str, keyless_api: Api, servers: Servers
) -> None:
    for name in {*KEYLESS} - {silent}:
        servers.say(name, "ok")
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json=QUERY)).json()
    assert (answer["profile"], answer["partial"], answer["credits"]) == (None, True, 0)
    assert answer["candidates"]
    assert statuses(answer)[silent] == "error"


async def test_a_company_of_the_name_is_not_taken_for_another_that_a_silent_register_knows(
    keyless_api: Api, servers: Servers
) -> None:
    servers.say("sec", "ok")[0]["body"] = {"0": {"cik_str": 1, "ticker": "CCF", "title": "CHASE CORP"}}
    servers.say("gleif", "empty")[0]["query"]["filter[entity.legalName]"] = "Chase"
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json={"company": "Chase"})).json()
    assert answer["profile"] is None
    assert [one["name"] for one in answer["candidates"]] == ["CHASE CORP"]


async def test_a_company_that_nobody_knows_is_an_answer(keyless_api: Api, servers: Servers) -> None:
    for name in KEYLESS:
        servers.say(name, "empty")
    servers.exchanges["sec"][0]["body"] = {}
    person = await keyless_api.person(credits=100)
    answer = (await person.key.post(PATH, json={"company": "Example Bank"})).json()
    assert (answer["profile"], answer["results"], answer["candidates"]) == (None, [], [])
    assert (answer["credits"], answer["partial"]) == (0, False)


async def test_when_every_source_fails_there_is_no_answer(keyless_api: Api, servers: Servers) -> None:
    person = await keyless_api.person(credits=100)
    response = await person.key.post(PATH, json=QUERY)
    assert (response.status_code, response.json()["code"]) == (502, "all_providers_failed")


async def test_a_second_search_asks_nobody(keyless_api: Api, servers: Servers) -> None:
    for name in KEYLESS:
        servers.say(name, "ok")
    person = await keyless_api.person(credits=100)
    first = (await person.key.post(PATH, json=QUERY)).json()
    asked = dict(servers.asked)
    second = (await person.key.post(PATH, json=QUERY)).json()
    assert (first["cached"], second["cached"]) == (False, True)
    assert second["profile"] == first["profile"]
    assert dict(servers.asked) == asked


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"company": "https://example.com"}, "/company"),
        ({"query": "-"}, "/query"),
        ({}, "/company"),
        ({"company": "Example", "limit": 101}, "/limit"),
        ({"company": "Example", "limit": 0}, "/limit"),
        ({"company": "Example", "page": 1}, "/page"),
    ],
)
async def test_bad_input_names_the_field(
    body: dict[str, Any], pointer: str, keyless_api: Api, servers: Servers
) -> None:
    person = await keyless_api.person(credits=100)
    response = await person.key.post(PATH, json=body)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == pointer
    assert not servers.asked


def test_a_company_with_several_securities_is_listed_once() -> None:
    rows = {
        str(number): {"cik_str": 42, "ticker": ticker, "title": "Example Corp /NV/"}
        for number, ticker in enumerate(("EX", "EX-PA"))
    }
    index = index_companies(rows)
    assert index == {"example": [("0000000042", "Example Corp")]}
    candidates = parse(SearchResult(WantedCompany("Example Corp"), index["example"]))["candidates"]
    assert [(one["cik"], one["score"]) for one in candidates] == [("0000000042", 0.9)]
