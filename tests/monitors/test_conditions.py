"""Conditions on changes: which changes are told, and from where they are measured."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.monitors.monitored import Monitored

SCORE = "threat.abuse_score"
REGISTRAR = "whois.registrar"
EXPIRES = "whois.expires"
TXT = "dns.txt"


def told(
    kind: str, source: str, path: str, values: list[Any], *when: dict[str, Any], **settings: Any
) -> list[tuple[Any, Any] | None]:
    """What is told of a field that has one value after the other: from what to what; None for nothing."""
    monitored = Monitored(kind, tracked=[path], when=when, **settings)
    found = [monitored.run({source: {} if one is None else {path: one}}).changes for one in values]
    return [(one[path]["old"], one[path]["new"]) if one else None for one in found]


def scores(*values: float | None, when: list[dict[str, Any]], tolerance: float = 0) -> list[Any]:
    return told("ip", "abuseipdb", SCORE, [*values], *when, tolerance={SCORE: tolerance})


@pytest.mark.parametrize(
    ("kind", "source", "path", "condition", "values", "tells"),
    [
        ("ip", "abuseipdb", SCORE, {"above": 50}, (10, 50), False),
        ("ip", "abuseipdb", SCORE, {"above": 50}, (10, 51), True),
        ("ip", "abuseipdb", SCORE, {"above": 50}, (90, 60), True),
        ("ip", "abuseipdb", SCORE, {"above": 50}, (60, None), False),
        ("ip", "abuseipdb", SCORE, {"below": 50}, (90, 49), True),
        ("ip", "abuseipdb", SCORE, {"below": 50}, (90, 50), False),
        ("ip", "abuseipdb", SCORE, {"crosses": 50}, (49, 50), True),
        ("ip", "abuseipdb", SCORE, {"crosses": 50}, (50, 49), True),
        ("ip", "abuseipdb", SCORE, {"crosses": 50}, (50, 90), False),
        ("ip", "abuseipdb", SCORE, {"crosses": 50}, (None, 90), False),
        ("ip", "abuseipdb", SCORE, {"changes_by": 20}, (50, 69), False),
        ("ip", "abuseipdb", SCORE, {"changes_by": 20}, (50, 30), True),
        ("ip", "abuseipdb", SCORE, {"becomes": None}, (50, None), True),
        ("ip", "abuseipdb", SCORE, {"becomes": None}, (50, 60), False),
        ("ip", "abuseipdb", SCORE, {"becomes": 60.0}, (50, 60), True),
        ("ip", "tor", "security.is_tor", {"becomes": True}, (False, True), True),
        ("ip", "tor", "security.is_tor", {"becomes": True}, (True, False), False),
        ("domain", "rdapdomain", EXPIRES, {"below": "2027-01-01"}, ("2028-01-01", "2026-12-31"), True),
        ("domain", "rdapdomain", EXPIRES, {"below": "2027-01-01"}, ("2028-01-01", "2029-01-01"), False),
        ("domain", "rdapdomain", EXPIRES, {"crosses": "2027-01-01"}, ("2028-01-01", "2026-01-01"), True),
        ("domain", "rdapdomain", EXPIRES, {"changes_by": 300}, ("2026-01-01", "2027-01-01"), True),
        ("domain", "rdapdomain", EXPIRES, {"changes_by": 300}, ("2026-01-01", "2026-02-01"), False),
        ("domain", "rdapdomain", REGISTRAR, {"contains": "GOD"}, ("Old Names", "New Godaddy"), True),
        ("domain", "rdapdomain", REGISTRAR, {"contains": "god"}, ("Godaddy", "Old Names"), False),
        ("domain", "rdapdomain", REGISTRAR, {"matches": "new*"}, ("Old Names", "New Names"), True),
        ("domain", "rdapdomain", REGISTRAR, {"matches": "names"}, ("Old Names", "New Names"), False),
        ("domain", "rdapdomain", REGISTRAR, {"becomes": "B"}, ("A", "B"), True),
        ("domain", "rdapdomain", REGISTRAR, {"becomes": "b"}, ("A", "B"), False),
        ("domain", "dns", "dns.ns", {"becomes": ["b.example", "A.example"]},
         (["c.example"], ["a.example", "B.example"]), True),
        ("domain", "dns", TXT, {"contains": "spf"}, (["x"], ["x", "v=spf1 -all"]), True),
        ("domain", "dns", TXT, {"contains": "spf"}, (["v=spf1 -all"], ["v=spf1 -all", "x"]), False),
        ("domain", "dns", TXT, {"matches": "google-*"}, ([], ["google-site-verification=1"]), True),
        ("domain", "dns", TXT, {"matches": "google-*"}, (["google-1"], []), False),
        ("domain", "dns", TXT, {"changes_by": 2}, (["a"], ["b"]), True),
        ("domain", "dns", TXT, {"changes_by": 2}, (["a"], ["a", "b"]), False),
    ],
)  # fmt: skip
def test_a_change_is_told_if_it_meets_the_condition(
    kind: str, source: str, path: str, condition: dict[str, Any], values: tuple[Any, Any], tells: bool
) -> None:
    tolerance = {path: 0} if path == SCORE else None
    found = told(kind, source, path, [*values], {"field": path, **condition}, tolerance=tolerance)
    assert (found[1] is not None) == tells


def test_one_condition_is_enough_and_changes_of_other_fields_are_left_out() -> None:
    when = [{"field": REGISTRAR, "becomes": "B"}, {"field": EXPIRES, "below": "2027-01-01"}]
    monitored = Monitored("domain", when=when)
    monitored.run({"rdapdomain": {REGISTRAR: "A", EXPIRES: "2028-01-01", "whois.created": "2001-01-01"}})
    new = {REGISTRAR: "B", EXPIRES: "2029-01-01", "whois.created": "2002-01-01"}
    found = monitored.run({"rdapdomain": new})
    assert found.changes == {REGISTRAR: {"old": "A", "new": "B"}}
    assert found.details.keys() == {REGISTRAR}


def test_a_change_that_is_not_told_is_no_news_later() -> None:
    when = [{"field": SCORE, "above": 50}]
    assert scores(10, 20, 20, 60, 60, when=when) == [None, None, None, (20, 60), None]


def test_small_steps_add_up_to_a_change_by_so_much_since_the_value_last_told() -> None:
    when = [{"field": SCORE, "changes_by": 20}]
    assert scores(50, 60, 65, 70, 75, 90, when=when) == [None, None, None, (50, 70), None, (70, 90)]


def test_steps_that_go_back_add_up_to_nothing() -> None:
    when = [{"field": SCORE, "changes_by": 20}]
    assert scores(50, 60, 50, 41, 60, when=when) == [None] * 5


def test_what_another_condition_tells_is_measured_from_then_on() -> None:
    when = [{"field": SCORE, "changes_by": 20}, {"field": SCORE, "becomes": 60}]
    assert scores(50, 60, 70, 80, when=when) == [None, (50, 60), None, (60, 80)]


def test_moves_within_the_tolerance_add_up_to_a_change_by_so_much_too() -> None:
    when = [{"field": SCORE, "changes_by": 30}]
    assert scores(50, 55, 62, 70, 80, when=when, tolerance=10) == [None, None, None, None, (50, 80)]


@given(st.lists(st.integers(0, 100), min_size=1))
def test_the_value_last_told_is_never_as_far_off_as_a_change_by_so_much(values: list[int]) -> None:
    last = values[0]
    for value, found in zip(values, scores(*values, when=[{"field": SCORE, "changes_by": 20}]), strict=True):
        if found:
            assert found == (last, value)
            assert abs(value - last) >= 20
            last = value
        assert abs(value - last) < 20


def mention(title: str, **more: Any) -> dict[str, Any]:
    return {"source": "intelx", "domain": None, "title": title, "body": None, "crawl_date": None, **more}


def mentions(old: list[Any], new: list[Any], **condition: Any) -> bool:
    """Return whether other mentions on the dark web are told."""
    monitored = Monitored("darkweb", when=[condition])
    monitored.run({"intelx": {"results": old}})
    return monitored.run({"intelx": {"results": new}}).changes is not None


def test_of_objects_a_member_of_those_that_have_come_or_changed_is_looked_at() -> None:
    one, two = mention("Acme leak"), mention("A paste")
    assert mentions([two], [two, one], field="results.title", contains="acme")
    assert not mentions([one], [one, two], field="results.title", contains="acme")
    assert not mentions([one, two], [two], field="results.title", contains="acme")
    assert mentions([two], [two, one], field="results", contains="acme")
    seen = mention("A paste", body="the passwords of acme")
    assert mentions([two], [seen], field="results.body", matches="*passwords*")
    assert not mentions([two], [seen], field="results.title", matches="*paste*")


def test_a_list_that_is_told_by_steps_has_all_items_since_it_was_last_told() -> None:
    monitored = Monitored("domain", tracked=[TXT], when=[{"field": TXT, "changes_by": 2}])
    for items in (["a"], ["a", "b"]):
        assert monitored.run({"dns": {TXT: items}}).changes is None
    found = monitored.run({"dns": {TXT: ["a", "b", "c"]}})
    assert found.changes == {TXT: {"old": ["a"], "new": ["a", "b", "c"]}}
    assert (found.details[TXT]["added"], found.details[TXT]["removed"]) == (["b", "c"], [])
    assert found.details[TXT]["sources"] == ["dns"]


def test_a_set_that_rotates_is_told_only_where_a_condition_is_on_it() -> None:
    def rotating(field: str) -> bool:
        monitored = Monitored("domain", when=[{"field": field, "contains": "x"}])
        for address in ("192.0.2.1", "192.0.2.2"):
            monitored.run({"dns": {"dns.a": [address]}})
        return "dns.a" in monitored.run({"dns": {"dns.a": ["192.0.2.1"]}}).details

    assert rotating("dns.a")
    assert not rotating(TXT)


def test_what_another_source_says_for_the_first_time_is_where_a_change_by_so_much_begins() -> None:
    path = "profile.employee_count"
    monitored = Monitored("company", tracked=[path], when=[{"field": path, "changes_by": 50}])
    runs = [{"sec": {path: 100}}, {"sec": {path: 140}, "wikidata": {path: 500}}, {"wikidata": {path: 520}}]
    assert [monitored.run(said).changes for said in runs] == [None, None, None]
