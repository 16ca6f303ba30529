"""Which company is meant: names, domains, and what sources find for them."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import Invalid
from providers.company.identity import Company, WantedCompany, ask_by, candidate, likeness, normalise, resolve
from providers.sources.base import Query


@pytest.mark.parametrize(
    ("text", "normalised", "wanted"),
    [
        ("  Example   Bank plc ", "Example Bank plc", WantedCompany("Example Bank plc")),
        ("Müller & Söhne GmbH", "Müller & Söhne GmbH", WantedCompany("Müller & Söhne GmbH")),
        ("Example.COM", "example.com", WantedCompany("example", "example.com")),
        ("www.example.co.uk", "example.co.uk", WantedCompany("example", "example.co.uk")),
        ("bücher.example.com", "example.com", WantedCompany("example", "example.com")),
        ("Example.com, Inc.", "Example.com, Inc.", WantedCompany("Example.com, Inc.")),
        ("Yahoo!", "Yahoo!", WantedCompany("Yahoo!")),
        ("No.suchtld", "No.suchtld", WantedCompany("No.suchtld")),
        ("3M", "3M", WantedCompany("3M")),
        ("X", "X", WantedCompany("X")),
    ],
)
def test_a_company_is_named_by_its_name_or_its_domain(
    text: str, normalised: str, wanted: WantedCompany
) -> None:
    query = normalise(text, "/company")
    assert (query.kind, query.words, query.value) == ("company", normalised, wanted)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Example Bank", "EXAMPLE  BANK"),
        ("Société Générale", "Socie\u0301te\u0301 Ge\u0301ne\u0301rale"),
        ("SOCIÉTÉ GÉNÉRALE", "socie\u0301te\u0301 ge\u0301ne\u0301rale"),
        ("Straße & Söhne", "STRASSE & SÖHNE"),
        ("Example.COM", "example.com"),
    ],
)
def test_a_name_is_one_query_in_whatever_case_and_encoding_it_comes(one: str, other: str) -> None:
    assert normalise(one, "/company").text == normalise(other, "/company").text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1 to 160"),
        ("---", "1 to 160"),
        ("x" * 10_000, "1 to 160"),
        ("Example\x00Bank", "control characters"),
        ("Example\nBank", "control characters"),
        ("https://example.com/about", "a URL"),
        ("ada(comment)@example.com", "an e-mail address"),
    ],
)
def test_what_is_neither_is_refused_with_a_good_example(text: str, says: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise(text, "/company")
    error = refused.value.errors[0]
    assert (error.pointer, error.code) == ("/company", "invalid_company")
    assert says in error.message
    assert "such as Example Bank plc or example.com" in error.message


@pytest.mark.parametrize(
    ("wanted", "name", "others", "points"),
    [
        ("Example Bank", "Example Bank", (), 90),
        ("example bank", "EXAMPLE BANK", (), 90),
        ("Société Générale", "SOCIETE GENERALE", (), 90),
        ("Smith & Sons", "Smith and Sons", (), 90),
        ("Example S.A.", "Example SA", (), 90),
        ("ExBank", "Example Bank", ("ExBank",), 85),
        ("Example Bank", "Example Bank plc", (), 80),
        ("Example Bank Ltd", "The Example Bank Public Limited Company", (), 80),
        ("Müller", "Müller GmbH & Co. KG", (), 80),
        ("Example Bank", "Example Bank Nominees", (), 0),
        ("Example", "Example Bank", (), 0),
        ("The Company", "The Corporation", (), 0),
        ("Cloudflare", "Cloudflare, Inc.", (), 80),
        ("Cloudflare, Inc.", "CLOUDFLARE INC", (), 90),
        ("Chase", "CHASE CORP", (), 80),
    ],
)
def test_names_are_alike_but_for_spelling_and_legal_form(
    wanted: str, name: str, others: tuple[str, ...], points: int
) -> None:
    assert likeness(wanted, name, others) == points


NAMED = WantedCompany("Example")


def found(name: str, wanted: WantedCompany = NAMED, **ids: str) -> dict[str, Any]:
    one = candidate(wanted, name, Company(**ids))
    assert one is not None
    return one


def resolved(
    answers: dict[str, list[dict[str, Any]]], wanted: WantedCompany = NAMED, *, complete: bool = True
) -> Any:
    told = {source: {"candidates": candidates} for source, candidates in answers.items()}
    return resolve(Query("company", wanted.name, wanted), told, complete)


def test_what_shares_an_id_is_one_company_with_all_their_ids() -> None:
    resolution = resolved(
        {
            "wikidata": [found("Example", wikidata="Q1", lei="L1", cik="1")],
            "sec": [found("Example Inc", cik="1")],
            "gleif": [found("EXAMPLE PLC", lei="L1", companies_house="01")],
        }
    )
    assert resolution.query.value == Company("Q1", "L1", "1", "01")
    assert resolution.query.text == "wikidata:Q1 lei:L1 cik:1 companies_house:01"
    assert resolution.fields == {}


def test_two_companies_of_one_name_are_never_one() -> None:
    answers = {"sec": [found("Example Inc", cik="1")], "gleif": [found("Example Ltd", lei="L1")]}
    resolution = resolved(answers)
    assert resolution.query.value == Company()
    assert resolution.fields == {name: {"candidates": one} for name, one in answers.items()}


def test_what_contradicts_an_id_is_another_company() -> None:
    resolution = resolved(
        {
            "wikidata": [found("Example", wikidata="Q1", lei="L1", cik="1")],
            "gleif": [found("Example", lei="L1", companies_house="01"), found("Example", lei="L2")],
            "companieshouse": [found("Example", companies_house="02")],
        }
    )
    assert resolution.query.value == Company("Q1", "L1", "1", "01")


def test_who_is_confirmed_by_another_source_stands_out() -> None:
    alone, confirmed = found("Example", lei="L2"), found("Example", wikidata="Q1", lei="L1")
    resolution = resolved({"wikidata": [confirmed], "gleif": [alone, found("Example", lei="L1")]})
    assert resolution.query.value == Company("Q1", "L1")


def test_while_a_source_is_silent_none_stands_out() -> None:
    alone = {"sec": [found("Example Corp", cik="1")]}
    resolution = resolved(alone, complete=False)
    assert resolution.query.value == Company()
    assert resolution.fields == {"sec": {"candidates": alone["sec"]}}


def test_a_domain_is_an_id_whoever_is_silent() -> None:
    wanted = WantedCompany("example", "example.com")
    assert resolved({}, wanted, complete=False).query.value == Company(domain="example.com")


def test_a_whole_name_stands_out_from_one_with_a_legal_form() -> None:
    resolution = resolved({"gleif": [found("Example Ltd", lei="L1"), found("EXAMPLE", lei="L2")]})
    assert resolution.query.value == Company(lei="L2")


def test_another_name_of_a_company_does_not_stand_out_from_a_legal_form() -> None:
    nicknamed = candidate(WantedCompany("Example"), "Sample", Company(lei="L1"), others=("Example",))
    assert nicknamed is not None
    resolution = resolved({"gleif": [nicknamed, found("Example Ltd", lei="L2")]})
    assert resolution.query.value == Company()
    assert [one["score"] for one in resolution.fields["gleif"]["candidates"]] == [0.85, 0.8]


def test_a_domain_is_an_id_even_if_no_register_knows_it() -> None:
    wanted = WantedCompany("example", "example.com")
    assert resolved({}, wanted).query.value == Company(domain="example.com")
    assert candidate(wanted, "Example", Company(wikidata="Q1", domain="example.org")) is None


def test_two_companies_of_one_domain_leave_the_domain() -> None:
    wanted = WantedCompany("example", "example.com")
    both = [found("A", wanted, wikidata=name, domain="example.com") for name in ("Q1", "Q2")]
    resolution = resolved({"wikidata": both}, wanted)
    assert resolution.query.value == Company(domain="example.com")
    assert resolution.fields == {"wikidata": {"candidates": both}}


def test_no_more_than_ten_candidates_are_given() -> None:
    resolution = resolved({"gleif": [found("Example", lei=f"L{number}") for number in range(20)]})
    assert len(resolution.fields["gleif"]["candidates"]) == 10


def test_a_source_is_asked_about_a_company_by_the_id_that_it_knows() -> None:
    company = Query("company", "cik:1 lei:2", Company(cik="1", lei="2"))
    assert ask_by("lei")(company) == Query("company", "lei:2", company.value)
    search = Query("company", "Amber", WantedCompany("Amber"))
    assert ask_by("lei")(search) == search
