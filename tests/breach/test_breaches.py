"""POST /api/agent/breaches: one answer from all that know of breaches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.breach import leakcheck
from providers.breach.kind import KIND, message
from providers.lookup.composition import compose
from providers.lookup.result import SourceResult
from settings import Settings
from tests.api_server import Person
from tests.email.sources import Sources, running_with, sources_on_loopback

PATH = "/api/agent/breaches"


async def test_an_address_is_in_the_breaches_that_any_source_knows(person: Person, sources: Sources) -> None:
    sources.say("ok")
    answer = (await person.key.post(PATH, json={"email": " Ada@Example.com "})).json()
    assert answer["email"] == "ada@example.com"
    assert answer["services"] == ["Adobe", "LinkedIn", "Evony.com", "Zynga.com", "Infostealer malware"]
    assert answer["breaches"] == 5
    assert answer["message"].startswith("This address is in 5 known breaches: Adobe, LinkedIn")
    assert answer["exposed_data"].count("Passwords") == 1
    assert answer["sources"]["services"] == ["xposedornot", "leakcheck", "hudsonrock"]
    assert (answer["credits"], answer["partial"], answer["cached"]) == (0, False, False)


async def test_the_logins_and_passwords_of_an_infected_computer_go_no_further(
    person: Person, sources: Sources
) -> None:
    sources.say("empty")
    sources.say("ok", "hudsonrock")
    response = await person.key.post(PATH, json={"email": "ada@example.com"})
    assert response.json()["services"] == ["Infostealer malware"]
    for secret in ("s*****1", "a*****", "ADA-PC", "192.0.2.1", "build.exe"):
        assert secret not in response.text


async def test_without_a_breach_the_lists_are_absent(person: Person, sources: Sources) -> None:
    sources.say("empty")
    response = await person.key.post(PATH, json={"email": "ada@example.com"})
    assert response.status_code == 200
    answer = response.json()
    assert (answer["breaches"], answer["message"]) == (0, "No known breach contains this address.")
    assert "services" not in answer
    assert "exposed_data" not in answer
    assert {report["status"] for report in answer["providers"]} == {"empty"}


async def test_a_source_that_fails_is_named_and_fails_no_other(person: Person, sources: Sources) -> None:
    sources.say("ok", "leakcheck")
    answer = (await person.key.post(PATH, json={"email": "ada@example.com"})).json()
    assert (answer["services"], answer["partial"]) == (["Evony.com", "Zynga.com"], True)
    assert {report["name"]: report["status"] for report in answer["providers"]} == {
        "xposedornot": "error", "leakcheck": "ok", "hudsonrock": "error",
    }  # fmt: skip


async def test_when_every_source_fails_there_is_no_answer(person: Person, sources: Sources) -> None:
    response = await person.key.post(PATH, json={"email": "ada@example.com"})
    assert (response.status_code, response.json()["code"]) == (502, "all_providers_failed")


@pytest.mark.parametrize("email", ["ada", "https://example.com", "x" * 10_000])
async def test_what_is_no_address_is_refused(email: str, person: Person, sources: Sources) -> None:
    response = await person.key.post(PATH, json={"email": email})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/email"
    assert not sources.asked


async def test_a_second_check_asks_nobody(person: Person, sources: Sources) -> None:
    sources.say("ok")
    first = await person.key.post(PATH, json={"email": "ada@example.com"})
    second = await person.key.post(PATH, json={"email": "ada@example.com"})
    assert (first.json()["cached"], second.json()["cached"]) == (False, True)
    assert set(sources.asked.values()) == {1}


async def test_with_a_key_have_i_been_pwned_comes_first(settings: Settings) -> None:
    async with sources_on_loopback(keys=True) as sources, running_with(sources, settings) as api:
        sources.say("ok")
        person = await api.person()
        answer = (await person.key.post(PATH, json={"email": "eve@example.com"})).json()
    assert answer["services"][:2] == ["Adobe", "Battlefield Heroes"]
    assert answer["sources"]["services"][0] == "hibp"


async def test_kept_local_there_is_no_one_to_ask(settings: Settings, sources: Sources) -> None:
    sources.say("ok")
    async with running_with(sources, settings, local_only=True) as api:
        person = await api.person()
        response = await person.key.post(PATH, json={"email": "ada@example.com"})
    assert (response.status_code, response.json()["code"]) == (503, "no_provider")
    assert not sources.asked


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"services": [f"B{number}" for number in range(8)]},
            "8 known breaches: B0, B1, B2, B3, B4 and 3 more.",
        ),
        ({"breaches": 1, "services": ["A"]}, "one known breach: A."),
        ({"breaches": 5, "services": []}, "5 known breaches, of which no source gives the name."),
        ({"breaches": 1, "services": []}, "one known breach, of which no source gives the name."),
        ({"breaches": 5, "services": ["A", "B"]}, "5 known breaches: A, B and 3 more."),
        (
            {"breaches": 2, "services": ["A", "B"], "spam_lists": ["A"], "retired": ["B"]},
            "2 known breaches: A (a spam list), B (retired).",
        ),
    ],
)
def test_the_message_counts_all_and_names_five_at_most(fields: dict[str, Any], told: str) -> None:
    assert message(fields, []) == f"This address is in {told}"


@pytest.mark.parametrize(
    ("said", "breaches", "services", "sources"),
    [
        ({"leakcheck": [5]}, 5, [], ["leakcheck"]),
        ({"leakcheck": [5], "xposedornot": ["A", "B"]}, 5, ["A", "B"], ["leakcheck"]),
        ({"leakcheck": [1], "xposedornot": ["A", "B"]}, 2, ["A", "B"], ["xposedornot"]),
        ({"leakcheck": [3, "A"], "hibp": ["B"]}, 3, ["B", "A"], ["leakcheck"]),
    ],
)
def test_breaches_without_a_name_count_and_are_never_none(
    said: dict[str, list[Any]], breaches: int, services: list[str], sources: list[str]
) -> None:
    told: list[tuple[Any, SourceResult]] = []
    for source in KIND.sources:
        counts, names = [], list[str]()
        for one in said.get(source.spec.name, []):
            names += [one] if isinstance(one, str) else []
            counts += [one] if isinstance(one, int) else []
        fields: dict[str, Any] = {"services": names} if names else {}
        fields |= {"breaches": counts[0]} if counts else {}
        told.append(
            (source, SourceResult("ok", fields) if source.spec.name in said else SourceResult("empty"))
        )
    result = compose(KIND, KIND.normalise("ada@example.com", ""), told, datetime.now(UTC))
    assert (result.data["breaches"], result.data["services"]) == (breaches, services)
    assert result.sources["breaches"] == sources
    assert f"{breaches} known breaches" in result.data["message"]


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ({"found": 5, "sources": []}, {"breaches": 5, "services": None}),
        ({"found": 0, "sources": []}, None),
        ({"found": 2, "sources": [{"name": "A"}, {"name": "B"}]}, {"breaches": None, "services": ["A", "B"]}),
        (
            {"found": 3, "sources": [{"name": "A"}, {"name": ""}, {"name": " "}]},
            {"breaches": 3, "services": ["A"]},
        ),
        ({"found": 2, "sources": [{"name": "A"}, {"name": "A"}]}, {"breaches": None, "services": ["A"]}),
    ],
)
def test_a_leak_without_a_name_is_a_leak(raw: dict[str, Any], fields: dict[str, Any] | None) -> None:
    told = leakcheck.parse({"success": True, "fields": ["email"], **raw})
    assert told == ({} if fields is None else fields | {"exposed_data": ["Email addresses"]})


async def test_breaches_that_no_source_names_are_told_by_their_number(
    person: Person, sources: Sources
) -> None:
    sources.say("empty")
    sources.say("unnamed", "leakcheck")
    answer = (await person.key.post(PATH, json={"email": "ada@example.com"})).json()
    assert (answer["breaches"], answer["services"], answer["exposed_data"]) == (5, [], ["Passwords"])
    assert answer["message"] == "This address is in 5 known breaches, of which no source gives the name."
    profile = (await person.key.post("/api/agent/lookup", json={"email": "ada@example.com"})).json()
    assert (profile["breach"]["count"], profile["breach"]["services"]) == (5, [])


async def test_a_spam_list_and_a_retired_breach_are_told_as_such_and_are_not_none(settings: Settings) -> None:
    async with sources_on_loopback(keys=True) as sources, running_with(sources, settings) as api:
        sources.say("empty")
        sources.say("spam_list_and_retired", "hibp")
        person = await api.person()
        answer = (await person.key.post(PATH, json={"email": "fay@example.com"})).json()
    assert (answer["breaches"], answer["services"]) == (2, ["Gone", "Spam"])
    assert (answer["spam_lists"], answer["retired"]) == (["Spam"], ["Gone"])
    told = "This address is in 2 known breaches: Gone (retired), Spam (a spam list)."
    assert answer["message"].startswith(told)
