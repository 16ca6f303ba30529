"""Answers made anew of what sources said at different times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from providers.base import Fields
from providers.composing import compose
from providers.registry import KINDS
from providers.result import NO_DATA, NOT_ASKED, SUPPRESSED, Outcome, Outcomes
from providers.retelling import filled_up, retell, said

MOMENT = datetime(2026, 11, 22, tzinfo=UTC)
DOMAIN = KINDS["domain"]
QUERY = DOMAIN.normalise("example.com", "")
AMBER: Fields = {"whois.registrar": "amber"}


def outcomes(**known: Outcome) -> Outcomes:
    """Of all sources of domains: these, and the others not asked."""
    absent = Outcome("skipped", detail=NOT_ASKED)
    return [(source, known.get(source.spec.name, absent)) for source in DOMAIN.sources]


@pytest.mark.parametrize("outcome", [Outcome("ok", AMBER), Outcome("cached", AMBER), Outcome("empty")])
def test_a_source_has_spoken_that_has_answered(outcome: Outcome) -> None:
    assert said(outcomes(rdapdomain=outcome)) == {"rdapdomain": outcome.fields}


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("timeout"),
        Outcome("rate_limited"),
        Outcome("auth_failed"),
        Outcome("bad_response"),
        Outcome("error"),
        Outcome("rejected"),
        Outcome("cached", AMBER, stale=True),
        Outcome("skipped", detail=NO_DATA),
        Outcome("skipped", detail=NOT_ASKED),
    ],
    ids=lambda outcome: f"{outcome.status} {outcome.detail or ''}",
)
def test_a_source_that_has_not_answered_says_again_what_it_said_last(outcome: Outcome) -> None:
    now = outcomes(rdapdomain=outcome, dns=Outcome("ok", {"dns.a": ["192.0.2.1"]}))
    assert said(now) == {"dns": {"dns.a": ["192.0.2.1"]}}
    found = compose(DOMAIN, QUERY, filled_up(now, {"rdapdomain": AMBER, "dns": {"dns.a": []}}), MOMENT)
    assert found.data["whois"]["registrar"] == "amber"
    assert found.data["dns"]["a"] == ["192.0.2.1"]
    assert found.sources["whois.registrar"] == ["rdapdomain"]


def test_nothing_is_said_again_of_a_person_who_is_suppressed() -> None:
    now: Outcomes = [(source, Outcome("skipped", detail=SUPPRESSED)) for source in DOMAIN.sources]
    found = compose(DOMAIN, QUERY, filled_up(now, {"rdapdomain": AMBER}), MOMENT)
    assert found.data["whois"]["registrar"] is None


def test_a_source_that_never_said_anything_is_still_silent() -> None:
    found = compose(DOMAIN, QUERY, filled_up(outcomes(rdapdomain=Outcome("timeout")), {}), MOMENT)
    assert found.partial


def test_an_answer_of_all_words_is_that_of_the_lookup() -> None:
    now = outcomes(
        rdapdomain=Outcome("ok", AMBER),
        dns=Outcome("ok", {"dns.a": ["192.0.2.1"]}),
        urlhaus=Outcome("ok", {"threat.malicious": False}),
    )
    assert retell(DOMAIN, QUERY, said(now), MOMENT).data == compose(DOMAIN, QUERY, now, MOMENT).data


def test_an_answer_of_some_words_is_as_if_no_other_source_were_set_up() -> None:
    found = retell(DOMAIN, QUERY, {"urlhaus": {"threat.malicious": False}}, MOMENT)
    assert found.data["threat"]["malicious"] is False
    assert not found.partial


def test_lists_are_told_whole() -> None:
    mentions = [{"title": str(number), "crawl_date": None} for number in range(250)]
    darkweb, company = KINDS["darkweb"], KINDS["company"]
    found = retell(darkweb, darkweb.normalise("example.com", ""), {"intelx": {"results": mentions}}, MOMENT)
    assert found.data["results"] == mentions
    people = [{"name": str(number), "role": None} for number in range(250)]
    found = retell(company, company.normalise("Amber", ""), {"hunterdomain": {"results": people}}, MOMENT)
    assert found.data["results"] == people
