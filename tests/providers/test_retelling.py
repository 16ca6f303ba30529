"""Answers made anew of what sources said at different times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from models.monitors.comparison import compare
from models.monitors.fields import known_fields, watch
from models.monitors.snapshots import carry_over
from providers.darkweb.mentions import mention
from providers.lookup.composition import compose
from providers.lookup.coverage import unheard_fields
from providers.lookup.replay import collect_said, editions, filled_up, retell
from providers.lookup.result import NO_DATA, NOT_ASKED, SUPPRESSED, SourceResult, SourceResults
from providers.lookup.source_status import OFF
from providers.registry import KINDS
from providers.sources.base import Fields

MOMENT = datetime(2026, 11, 22, tzinfo=UTC)
DOMAIN = KINDS["domain"]
QUERY = DOMAIN.normalise("example.com", "")
AMBER: Fields = {"whois.registrar": "amber"}


def outcomes(**known: SourceResult) -> SourceResults:
    """Of all sources of domains: these, and the others not asked."""
    absent = SourceResult("skipped", detail=NOT_ASKED)
    return [(source, known.get(source.spec.name, absent)) for source in DOMAIN.sources]


@pytest.mark.parametrize(
    "outcome", [SourceResult("ok", AMBER), SourceResult("cached", AMBER), SourceResult("empty")]
)
def test_a_source_has_spoken_that_has_answered(outcome: SourceResult) -> None:
    assert collect_said(outcomes(rdapdomain=outcome)) == {"rdapdomain": outcome.fields}


@pytest.mark.parametrize(
    "outcome",
    [
        SourceResult("timeout"),
        SourceResult("rate_limited"),
        SourceResult("auth_failed"),
        SourceResult("bad_response"),
        SourceResult("error"),
        SourceResult("rejected"),
        SourceResult("cached", AMBER, stale=True),
        SourceResult("skipped", detail=NO_DATA),
        SourceResult("skipped", detail=NOT_ASKED),
    ],
    ids=lambda outcome: f"{outcome.status} {outcome.detail or ''}",
)
def test_a_source_that_has_not_answered_says_again_what_it_said_last(outcome: SourceResult) -> None:
    now = outcomes(rdapdomain=outcome, dns=SourceResult("ok", {"dns.a": ["192.0.2.1"]}))
    assert collect_said(now) == {"dns": {"dns.a": ["192.0.2.1"]}}
    found = compose(DOMAIN, QUERY, filled_up(now, {"rdapdomain": AMBER, "dns": {"dns.a": []}}), MOMENT)
    assert found.data["whois"]["registrar"] == "amber"
    assert found.data["dns"]["a"] == ["192.0.2.1"]
    assert found.sources["whois.registrar"] == ["rdapdomain"]


UNSURE = SourceResult(
    "ok", {"dns.a": ["192.0.2.1"], "dns.txt": ["part"]}, unsure=frozenset({"dns.soa", "dns.txt"})
)


def test_what_a_source_could_not_find_out_is_told_as_such() -> None:
    assert collect_said(outcomes(dns=UNSURE)) == {
        "dns": {"dns.a": ["192.0.2.1"], "dns.txt": None, "dns.soa": None}
    }


@pytest.mark.parametrize(
    ("last", "soa", "txt"),
    [
        ({"dns.soa": "amber", "dns.txt": ["all", "part"]}, "amber", ["all", "part"]),
        ({}, None, []),
        ({"dns.soa": None, "dns.txt": None}, None, ["part"]),
    ],
    ids=["it has found out", "there was nothing", "it never could"],
)
def test_a_source_says_again_what_it_could_not_find_out(
    last: Fields, soa: str | None, txt: list[str]
) -> None:
    found = compose(DOMAIN, QUERY, filled_up(outcomes(dns=UNSURE), {"dns": last}), MOMENT)
    assert (found.data["dns"]["soa"], found.data["dns"]["txt"]) == (soa, txt)
    assert found.data["dns"]["a"] == ["192.0.2.1"]


def test_what_could_never_be_found_out_is_unknown() -> None:
    found = retell(DOMAIN, QUERY, {"dns": {"dns.soa": None, "dns.caa": None}}, MOMENT)
    assert (found.data["dns"]["soa"], found.data["dns"]["caa"]) == (None, [])


def test_a_source_without_its_key_is_carried_over() -> None:
    """It may have had one before: a lost key is silence."""
    now = outcomes(rdapdomain=SourceResult("skipped", detail="no_key"))
    found = compose(DOMAIN, QUERY, filled_up(now, {"rdapdomain": AMBER}), MOMENT)
    assert found.data["whois"]["registrar"] == "amber"


@pytest.mark.parametrize("why", sorted(OFF - {"no_key"}))
def test_a_source_that_is_switched_off_says_nothing_again(why: str) -> None:
    now = outcomes(rdapdomain=SourceResult("skipped", detail=why))
    found = compose(DOMAIN, QUERY, filled_up(now, {"rdapdomain": AMBER}), MOMENT)
    assert found.data["whois"]["registrar"] is None
    assert editions(now).keys() == {source.spec.name for source in DOMAIN.sources} - {"rdapdomain"}


def test_an_answer_about_another_thing_is_another_edition() -> None:
    one, other = (
        editions(outcomes(dns=SourceResult("ok", about=about)))["dns"] for about in ("amber", "basalt")
    )
    assert one != other


def test_nothing_is_said_again_of_a_person_who_is_suppressed() -> None:
    now: SourceResults = [(source, SourceResult("skipped", detail=SUPPRESSED)) for source in DOMAIN.sources]
    found = compose(DOMAIN, QUERY, filled_up(now, {"rdapdomain": AMBER}), MOMENT)
    assert found.data["whois"]["registrar"] is None


def test_a_source_that_never_said_anything_is_still_silent() -> None:
    found = compose(DOMAIN, QUERY, filled_up(outcomes(rdapdomain=SourceResult("timeout")), {}), MOMENT)
    assert found.partial


def test_an_answer_of_all_words_is_that_of_the_lookup() -> None:
    now = outcomes(
        rdapdomain=SourceResult("ok", AMBER),
        dns=SourceResult("ok", {"dns.a": ["192.0.2.1"]}),
        urlhaus=SourceResult("ok", {"threat.malicious": False}),
    )
    assert retell(DOMAIN, QUERY, collect_said(now), MOMENT).data == compose(DOMAIN, QUERY, now, MOMENT).data


def test_an_answer_of_some_words_is_as_if_no_other_source_were_set_up() -> None:
    found = retell(DOMAIN, QUERY, {"urlhaus": {"threat.malicious": False}}, MOMENT)
    assert found.data["threat"]["malicious"] is False
    assert not found.partial


def test_lists_are_told_whole() -> None:
    mentions = [{"title": str(number), "crawl_date": None} for number in range(250)]
    darkweb, company = KINDS["darkweb"], KINDS["company"]
    found = retell(darkweb, darkweb.normalise("example.com", ""), {"intelx": {"results": mentions}}, MOMENT)
    assert [one["title"] for one in found.data["results"]] == [one["title"] for one in mentions]
    people = [{"name": str(number), "role": None} for number in range(250)]
    found = retell(company, company.normalise("Amber", ""), {"hunterdomain": {"results": people}}, MOMENT)
    assert found.data["results"] == people


def test_a_zero_that_is_only_what_was_heard_of_changes_nothing() -> None:
    kind = KINDS["darkweb"]
    query, known = kind.normalise("example.com", ""), known_fields(kind.answer)
    found = SourceResult("ok", {"results": [mention("ahmia", title="A page", body=None)], "total": 1})

    def seen(ahmia: SourceResult) -> SourceResults:
        off = SourceResult("skipped", detail="no_key")
        told = {"ahmia": ahmia, "ransomwarelive": SourceResult("empty")}
        return [(source, told.get(source.spec.name, off)) for source in kind.sources]

    first, second = seen(found), seen(SourceResult("timeout"))
    partial = compose(kind, query, second, MOMENT)
    assert (partial.data["total"], unheard_fields(kind, partial)) == (0, {"total"})
    before = carry_over(None, collect_said(first), MOMENT, editions(first))
    after = carry_over(before, collect_said(second), MOMENT, editions(second))
    everything = watch(kind.name, known, ["*"])
    comparison = compare(before, after, everything, lambda words: retell(kind, query, words, MOMENT).data)
    assert comparison.changes is None
    assert retell(kind, query, after.said, MOMENT).data["total"] == 1
