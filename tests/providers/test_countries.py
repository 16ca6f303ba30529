"""Countries: one name for each, whatever sources call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from providers.ip import abstractip, dbip
from providers.ip.countries import COUNTRIES, country_code, country_name, named_country
from providers.ip.kind import KIND
from providers.sources.aggregate import merge

TOLD = json.loads((Path(__file__).parents[1] / "fixtures/abstractip/ok.json").read_text())


def test_countries_are_two_letters_a_name_and_one_of_seven_continents() -> None:
    assert COUNTRIES["US"] == ("United States", "North America")
    assert COUNTRIES["RU"] == ("Russia", "Europe")
    assert len(COUNTRIES) > 245
    assert all(len(code) == 2 and code.isupper() and name for code, (name, _) in COUNTRIES.items())
    assert {continent for _, continent in COUNTRIES.values()} == {
        "Africa", "Antarctica", "Asia", "Europe", "North America", "Oceania", "South America",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Czechia", "CZ"),
        ("Czech Republic", "CZ"),
        ("Türkiye", "TR"),
        ("TURKEY", "TR"),
        ("Iran, Islamic Republic of", "IR"),
        ("Iran (Islamic Republic of)", "IR"),
        ("Korea, Republic of", "KR"),
        ("Korea, Democratic People's Republic of", "KP"),
        ("Congo, Democratic Republic of the", "CD"),
        ("Congo", "CG"),
        ("The Netherlands", "NL"),
        ("Cote d'Ivoire", "CI"),
        ("St. Kitts & Nevis", "KN"),
        ("Virgin Islands, British", "VG"),
        ("Viet Nam", "VN"),
        ("United States of America", "US"),
        ("Curaçao", "CW"),
        ("Timor-Leste", "TL"),
        ("Guinea-Bissau", "GW"),
        ("Guinea", "GN"),
        ("Georgia", "GE"),
        ("Nowhere", None),
        ("", None),
    ],
)
def test_a_country_is_known_by_any_of_its_usual_names(name: str, code: str | None) -> None:
    assert country_code(name) == code


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("US", "United States"),
        ("gb", "United Kingdom"),
        ("United States of America", "United States"),
        ("united states", "United States"),
        ("Scotland", "United Kingdom"),
        ("People's Republic of China", "China"),
        ("Atlantis", "Atlantis"),
        ("", None),
        (None, None),
    ],
)
def test_a_country_has_one_name_by_code_or_by_any_of_its_names(told: str | None, name: str | None) -> None:
    assert named_country(told) == name


def test_every_name_is_that_of_its_own_country() -> None:
    assert [code for code, (name, _) in COUNTRIES.items() if country_code(name) != code] == []


def test_the_code_goes_before_the_name_and_what_is_unknown_stays_as_it_was_told() -> None:
    assert country_name("MK", "Macedonia (the former Yugoslav Republic of)") == "North Macedonia"
    assert country_name(None, "Viet Nam") == "Vietnam"
    assert country_name("ZZ", "Neverland") == "Neverland"
    assert country_name(None) is None


def test_two_sources_that_spell_a_country_differently_agree() -> None:
    told = TOLD["exchanges"][0]["body"]
    there = told["location"] | {"country": "Czech Republic", "country_code": "CZ", "continent": "Europa"}
    answers = [
        ("abstractip", abstractip.parse(told | {"location": there})),
        ("dbip", dbip.parse({"country_code": "CZ", "city": "Prague"})),
    ]
    merged = merge(answers, KIND.rules)
    for path, name in (("location.country", "Czechia"), ("location.continent", "Europe")):
        assert (merged.fields[path], merged.sources[path]) == (name, ["abstractip", "dbip"])
        assert path not in merged.conflicts
