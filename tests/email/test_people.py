"""Two people behind one address never become one profile."""

from __future__ import annotations

from typing import Any

import pytest

from providers.email.kind import KIND
from providers.email.people import same_person
from providers.lookup.result import LookupResult, SourceResult
from tests.lookups.composing import answer

BOB = {
    "name": "Bob Sample", "company": "Sample Ltd", "city": "Paris", "bio": "I am Bob.",
    "socials.twitter": "https://x.com/bob_sample", "registered_services.services": ["GitHub"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada Lovelace", "ADA LOVELACE"),
        ("Ada Lovelace", "Ada Lövelace"),
        ("Ada Lovelace", "Lovelace, Ada"),
        ("Ada Lovelace", "Ada"),
        ("Ada Lovelace", "Dr. Ada King Lovelace"),
        ("Ada Lovelace", "A. Lovelace"),
        ("Ada Lovelace", "Ada L."),
        ("Ada Lovelace", "ada_lovelace"),
        ("Ada Lovelace", "alovelace"),
        ("Ada Lovelace", "adal"),
        ("Ada Lovelace", "ada99"),
        ("Benjamin Richard", "Ben Richard"),
        ("Søren Łukasz", "Soren Lukasz"),
        ("Anne-Marie Sample", "Anne Marie Sample"),
        ("山田太郎", "山田太郎"),
    ],
)
def test_names_of_one_person_agree(one: str, other: str) -> None:
    assert same_person(one, other)
    assert same_person(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada Lovelace", "Bob Sample"),
        ("Ada Lovelace", "Ada Byron"),
        ("Ada Lovelace", "Bob Lovelace"),
        ("Ada Lovelace", "Alan Lee"),
        ("Ada Lovelace", "A. L."),
        ("Ada Lovelace", "bob99"),
        ("Ada Lovelace", "Countess"),
        ("Jo Sample", "John Example"),
        ("山田太郎", "山田花子"),
    ],
)
def test_names_of_two_people_do_not(one: str, other: str) -> None:
    assert not same_person(one, other)
    assert not same_person(other, one)


def lookup(**said: dict[str, Any]) -> LookupResult:
    """The profile where these sources have said so, and all others know nothing."""
    empty = SourceResult("empty")
    told = {name: SourceResult("ok", fields) for name, fields in said.items()}
    return answer(KIND, [(source, told.get(source.spec.name, empty)) for source in KIND.sources])


def test_what_is_said_of_another_person_stands_apart() -> None:
    result = lookup(gravatar={"name": "Ada Lovelace"}, github=BOB)
    personal = ("company", "city", "bio", "location", "job_role", "phone", "photo")
    assert {name: result.data[name] for name in personal} == dict.fromkeys(personal)
    assert (result.data["name"], result.data["socials"]["twitter"]) == ("Ada Lovelace", None)
    [other] = result.data["other_people"]
    assert {name: value for name, value in other.items() if value} == {
        "source": "github", "name": "Bob Sample", "company": "Sample Ltd", "city": "Paris",
        "bio": "I am Bob.", "socials": ["https://x.com/bob_sample"],
    }  # fmt: skip
    assert result.conflicts == {"name": {"gravatar": "Ada Lovelace", "github": "Bob Sample"}}
    assert result.sources["other_people"] == ["github"]
    # The account is one of this address, whoever has it.
    assert result.data["registered_services"]["services"] == ["GitHub"]


def test_what_the_profile_has_and_is_said_otherwise_of_another_is_a_conflict() -> None:
    result = lookup(gravatar={"name": "Ada Lovelace", "company": "Engines"}, hunterperson=BOB)
    assert result.data["company"] == "Engines"
    assert result.conflicts["company"] == {"gravatar": "Engines", "hunterperson": "Sample Ltd"}


def test_in_a_conflict_each_source_has_its_own_words() -> None:
    said = {"gravatar": {"name": "Ada", "company": "Engines, Inc."}, "github": {"company": "engines"}}
    result = lookup(**said, openpgp={"name": "Ada"})
    assert (result.sources["company"], result.conflicts) == (["gravatar", "github"], {})
    said["github"]["name"] = "Ada"
    result = lookup(**said, hunterperson=BOB)
    assert result.conflicts["company"] == {
        "gravatar": "Engines, Inc.", "github": "engines", "hunterperson": "Sample Ltd",
    }  # fmt: skip


def test_sources_that_agree_make_one_profile() -> None:
    result = lookup(gravatar={"name": "Ada Lovelace"}, github={"name": "Ada L.", "city": "London"})
    assert (result.data["city"], result.data["other_people"]) == ("London", [])


def test_everyone_must_agree_with_everyone() -> None:
    said = {"gravatar": {"name": "Ada"}, "github": {"name": "Ada Lovelace"}}
    result = lookup(**said, hunterperson={"name": "Ada Byron", "city": "Paris"})
    assert (result.data["name"], result.data["city"]) == ("Ada", None)
    assert [one["name"] for one in result.data["other_people"]] == ["Ada Byron"]


def test_between_two_people_nobody_knows_whose_a_nameless_profile_is() -> None:
    nameless = {"bio": "Engines", "registered_services.services": ["GitHub"]}
    assert lookup(gravatar={"name": "Ada"}, github=nameless).data["bio"] == "Engines"
    result = lookup(gravatar={"name": "Ada"}, github=nameless, hunterperson={"name": "Bob"})
    assert result.data["bio"] is None
    others = [(one["source"], one["name"], one["bio"]) for one in result.data["other_people"]]
    assert others == [("github", None, "Engines"), ("hunterperson", "Bob", None)]


def test_what_a_source_has_already_found_apart_stays_so() -> None:
    eve = lookup(gravatar={"name": "Ada"}, github={"name": "Eve"}).data["other_people"]
    result = lookup(github={"name": "Ada", "other_people": eve})
    assert (result.data["name"], result.data["other_people"]) == ("Ada", eve)


@pytest.mark.parametrize("field", ["company", "socials.twitter", "bio", "other_people", "role", "socials"])
def test_for_what_is_personal_all_who_know_names_are_asked(field: str) -> None:
    needed = KIND.find_needed([field])
    assert {"name", "first_name", "last_name"} <= needed


def test_other_people_alone_are_paid_as_a_person_is() -> None:
    result = lookup(github={"name": "Ada"}, hunterperson={"name": "Bob"})
    assert result.credits == 1


# Which services were asked


def asked_of(**outcomes: SourceResult) -> dict[str, Any]:
    empty = SourceResult("empty")
    told = [(source, outcomes.get(source.spec.name, empty)) for source in KIND.sources]
    return answer(KIND, told).data["registered_services"]


OFF = SourceResult("skipped", detail="disabled")
ALL = ["Gravatar", "GitHub", "keys.openpgp.org"]
FOUND = SourceResult("ok", {"registered_services.services": ["GitHub"]})


@pytest.mark.parametrize(
    ("outcomes", "count", "asked"),
    [
        ({}, 0, ALL),
        ({"github": FOUND}, 1, ALL),
        ({"github": FOUND, "openpgp": SourceResult("timeout")}, 1, ALL),
        ({"openpgp": SourceResult("timeout")}, None, ALL),
        ({"github": SourceResult("rate_limited")}, None, ALL),
        ({"github": OFF}, 0, ["Gravatar", "keys.openpgp.org"]),
        ({"gravatar": OFF, "github": OFF, "openpgp": OFF}, None, []),
    ],
)
def test_no_service_is_said_only_of_all_that_were_asked(
    outcomes: dict[str, SourceResult], count: int | None, asked: list[str]
) -> None:
    told = asked_of(**outcomes)
    assert (told["count"], told["asked"]) == (count, asked)
