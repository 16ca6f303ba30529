"""POST /api/agent/lookup: the person behind an address."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.email.answer import EmailAnswer
from providers.email.kind import KIND, cost
from providers.sources.aggregate import merge
from settings import Settings
from tests.api_server import Person
from tests.email.sources import Sources, running_with, sources_on_loopback

PATH = "/api/agent/lookup"
ADA = {"email": "ada@example.com"}


async def test_a_profile_is_made_from_all_sources(person: Person, sources: Sources) -> None:
    sources.say("ok")
    answer = (await person.key.post(PATH, json=ADA)).json()
    EmailAnswer.model_validate(answer)
    assert {name: answer[name] for name in ("email", "name", "company", "job_role", "role", "location")} == {
        "email": "ada@example.com", "name": "Ada Lovelace", "company": "Analytical Engines",
        "job_role": "Analyst", "role": "Analyst", "location": "London, UK",
    }  # fmt: skip
    assert answer["current_location"] == "London, UK"
    assert answer["socials"] == {
        "linkedin": None, "twitter": "https://x.com/ada_example", "instagram": None, "facebook": None,
        "github": "https://github.com/ada-example",
    }  # fmt: skip
    assert answer["registered_services"] == {
        "count": 5, "services": ["Gravatar", "GitHub", "X", "Tumblr", "keys.openpgp.org"],
        "asked": ["Gravatar", "GitHub", "keys.openpgp.org"],
    }  # fmt: skip
    assert answer["breach"]["count"] == len(answer["breach"]["services"]) == 5
    assert (answer["validity"], answer["mx_found"], answer["company_domain"]) == (
        "valid",
        True,
        "example.com",
    )
    assert (answer["is_disposable"], answer["is_role_account"], answer["is_free_provider"]) == (None,) * 3
    assert answer["conflicts"]["name"]["openpgp"] == "Ada Lövelace"
    assert answer["sources"]["breach.services"] == ["xposedornot", "leakcheck", "hudsonrock"]
    assert answer["credits"] == 1


async def test_of_a_stranger_only_the_address_is_known_and_that_is_free(
    person: Person, sources: Sources
) -> None:
    sources.say("empty")
    answer = (await person.key.post(PATH, json=ADA)).json()
    assert (answer["credits"], answer["validity"], answer["name"]) == (0, "valid", None)
    assert answer["breach"] == {
        "count": 0, "services": [], "exposed_data": [], "spam_lists": [], "retired": [],
    }  # fmt: skip
    assert answer["registered_services"]["count"] == 0
    assert answer["registered_services"]["asked"] == ["Gravatar", "GitHub", "keys.openpgp.org"]
    assert (answer["languages"], answer["news"], answer["publications"]) == ([], [], [])


async def test_what_nobody_could_say_is_null_and_not_zero(person: Person, sources: Sources) -> None:
    answer = (await person.key.post(PATH, json=ADA)).json()
    assert answer["partial"]
    assert answer["breach"]["count"] is None
    assert answer["registered_services"]["count"] is None


async def test_kept_local_only_the_lists_on_this_machine_are_read(
    settings: Settings, sources: Sources
) -> None:
    sources.say("ok")
    async with running_with(sources, settings, local_only=True) as api:
        person = await api.person(credits=1)
        answer = (await person.key.post(PATH, json={"email": "info@mailinator.com"})).json()
    assert (answer["is_disposable"], answer["is_role_account"], answer["validity"]) == (True, True, "risky")
    assert (answer["mx_found"], answer["breach"]["count"], answer["credits"]) == (None, None, 0)
    assert not sources.asked


async def test_keys_bring_the_sources_that_need_them(settings: Settings) -> None:
    async with sources_on_loopback(keys=True) as sources, running_with(sources, settings) as api:
        sources.say("empty")
        sources.say("ok", "abstractemail", "hunter", "hibp")
        person = await api.person(credits=10)
        answer = (await person.key.post(PATH, json={"email": "ben@example.com"})).json()
    assert (answer["first_name"], answer["last_name"], answer["name"]) == (
        "Benjamin", "Richard", "Benjamin Richard",
    )  # fmt: skip
    assert (answer["validity"], answer["sources"]["validity"]) == ("risky", ["hunter", "abstractemail"])
    assert answer["breach"]["services"] == [
        "apollo.io", "canva.com", "Adobe", "Battlefield Heroes", "Gone", "Spam",
    ]  # fmt: skip
    assert (answer["breach"]["spam_lists"], answer["breach"]["retired"]) == (["Spam"], ["Gone"])


async def test_a_persons_name_and_place_come_from_one_source_each() -> None:
    merged = merge(
        [
            ("gravatar", {"first_name": "Ada", "name": "Ada", "location": "London"}),
            ("github", {"name": "Ada L."}),
            ("abstractemail", {"first_name": "Augusta", "last_name": "Byron", "name": "Augusta Byron"}),
            ("other", {"location": "Paris", "city": "Paris", "country": "France"}),
        ],
        KIND.rules,
        KIND.together,
    )
    assert merged.fields == {"first_name": "Ada", "name": "Ada", "location": "London"}
    assert merged.sources["name"] == ["gravatar"]
    assert "name" not in KIND.derive(merged.fields, datetime.now(UTC))


def test_the_parts_of_a_job_come_from_one_source() -> None:
    answers = [("a", {"job_role": "Analyst"}), ("b", {"job_role": "Owner", "seniority": "executive"})]
    assert merge(answers, KIND.rules, KIND.together).fields == {"job_role": "Analyst"}


async def test_what_a_list_misses_is_false_only_if_a_source_says_so(settings: Settings) -> None:
    async with sources_on_loopback(keys=True) as sources:
        del sources.providers["abstractemail"]
        sources.say("empty")
        sources.say("ok", "hunter")
        async with running_with(sources, settings) as api:
            person = await api.person(credits=10)
            answer = (await person.key.post(PATH, json={"email": "dora@example.com"})).json()
    told = (answer["is_disposable"], answer["is_role_account"], answer["is_free_provider"])
    assert told == (False, None, False)
    assert answer["sources"]["is_free_provider"] == ["hunter"]


async def test_the_domain_of_a_free_provider_that_no_list_has_is_no_companys(settings: Settings) -> None:
    async with sources_on_loopback(keys=True) as sources, running_with(sources, settings) as api:
        sources.say("empty")
        sources.say("webmail", "hunter")
        person = await api.person(credits=10)
        answer = (await person.key.post(PATH, json={"email": "cleo@example.com"})).json()
    assert (answer["is_free_provider"], answer["company_domain"]) == (True, None)
    assert "company_domain" not in answer["sources"]


async def test_a_breach_check_and_a_lookup_ask_each_source_once(person: Person, sources: Sources) -> None:
    sources.say("ok")
    await person.key.post("/api/agent/breaches", json=ADA)
    answer = (await person.key.post(PATH, json=ADA)).json()
    assert {name: sources.asked[name] for name in ("xposedornot", "leakcheck", "hudsonrock")} == {
        "xposedornot": 1, "leakcheck": 1, "hudsonrock": 1,
    }  # fmt: skip
    assert answer["breach"]["count"] == 5


async def test_nocache_asks_anew(person: Person, sources: Sources) -> None:
    sources.say("ok")
    await person.key.post(PATH, json=ADA)
    await person.key.post(PATH, json=ADA)
    assert sources.asked["gravatar"] == 1
    await person.key.post(f"{PATH}?nocache=1", json=ADA)
    assert sources.asked["gravatar"] == 2


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ("name", {"gravatar", "github", "openpgp"}),
        ("photo,bio", {"gravatar", "github", "openpgp"}),
        ("breach", {"xposedornot", "leakcheck", "hudsonrock"}),
        ("breach.count", {"xposedornot", "leakcheck", "hudsonrock"}),
        ("socials.github", {"gravatar", "github", "openpgp"}),
        ("registered_services.asked", {"gravatar", "github", "openpgp"}),
        ("validity", set[str]()),
        ("role", {"gravatar", "github", "openpgp"}),
    ],
)
async def test_only_who_can_fill_the_chosen_fields_is_asked(
    fields: str, asked: set[str], person: Person, sources: Sources
) -> None:
    sources.say("ok")
    response = await person.key.post(f"{PATH}?fields={fields}", json=ADA)
    assert response.status_code == 200
    assert set(sources.asked) == asked
    assert fields != "validity" or response.json()["validity"] == "valid"


@pytest.mark.parametrize("fields", ["nam", ",", "", "email", "socials.myspace", "name,x"])
async def test_fields_that_the_profile_lacks_are_refused(
    fields: str, person: Person, sources: Sources
) -> None:
    response = await person.key.post(f"{PATH}?fields={fields}", json=ADA)
    assert response.status_code == 400
    assert response.json()["errors"][0]["code"] == "unknown_field"
    assert not sources.asked


async def test_what_is_no_address_is_refused(person: Person, sources: Sources) -> None:
    response = await person.key.post(PATH, json={"email": "Ada <ada@example.com>"})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/email"


@pytest.mark.parametrize(
    ("fields", "credits"),
    [
        ({}, 0),
        ({"email": "a@b.de", "validity": "valid", "mx_found": True, "is_disposable": False}, 0),
        ({"breach.services": ["Adobe"], "breach.count": 1}, 0),
        ({"company_domain": "example.com", "registered_services.count": 0}, 0),
        ({"registered_services.asked": ["GitHub"], "breach.spam_lists": ["Spam"]}, 0),
        ({"name": "Ada"}, 1),
        ({"registered_services.services": ["GitHub"]}, 1),
        ({"socials.github": "https://github.com/ada"}, 1),
    ],
)
def test_only_what_is_known_of_the_person_costs(fields: dict[str, Any], credits: int) -> None:
    assert cost(fields) == credits <= KIND.price
