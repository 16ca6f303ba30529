"""What counts as a change, case by case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.monitors.snapshots import Said
from providers.darkweb.hackishness import hackishness
from tests.monitors.monitored import DAY, Monitored, changes
from tests.monitors.worlds import EDITIONS, MOMENT


def officer(name: str, role: str | None, **more: str) -> dict[str, Any]:
    return {"name": name, "role": role, "appointed_on": None, "nationality": None, **more}


def person(**known: str) -> dict[str, Any]:
    return {"email": None, "name": None, "role": None, "linkedin": None, **known}


def test_the_first_run_has_no_changes() -> None:
    assert changes("domain", {"rdapdomain": {"whois.registrar": "amber"}}) is None


def test_a_change_is_the_old_value_and_the_new_one() -> None:
    found = changes(
        "domain",
        {"rdapdomain": {"whois.registrar": "amber", "whois.expires": "2027-01-01"}},
        {"rdapdomain": {"whois.registrar": "basalt", "whois.expires": "2027-01-01"}},
    )
    assert found == {"whois.registrar": {"old": "amber", "new": "basalt"}}


@pytest.mark.parametrize(
    ("old", "new"), [({}, {"whois.registrar": "amber"}), ({"whois.registrar": "amber"}, {})]
)
def test_a_source_that_has_answered_both_times_can_fill_and_empty_a_field(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    found = changes("domain", {"rdapdomain": old}, {"rdapdomain": new})
    assert found == {
        "whois.registrar": {"old": old.get("whois.registrar"), "new": new.get("whois.registrar")}
    }


def test_a_silent_source_changes_nothing() -> None:
    monitored = Monitored("domain")
    monitored.run({"rdapdomain": {"whois.registrar": "amber"}, "dns": {"dns.mx": ["192.0.2.1"]}})
    assert monitored.run({"dns": {"dns.mx": ["192.0.2.1"]}}).changes is None
    assert monitored.answer()["whois"]["registrar"] == "amber"


def test_a_change_is_told_when_its_source_answers_again_and_only_then() -> None:
    monitored = Monitored("domain")
    monitored.run({"rdapdomain": {"whois.registrar": "amber"}})
    assert monitored.run({}).changes is None
    assert monitored.run({"rdapdomain": {"whois.registrar": "basalt"}}).changes
    assert monitored.run({"rdapdomain": {"whois.registrar": "basalt"}}).changes is None


def test_what_a_source_says_that_is_heard_for_the_first_time_is_no_change() -> None:
    monitored = Monitored("domain")
    monitored.run({"dns": {"dns.mx": []}})
    found = monitored.run({"dns": {"dns.mx": ["192.0.2.1"]}, "rdapdomain": {"whois.registrar": "amber"}})
    assert found.changes == {"dns.mx": {"old": [], "new": ["192.0.2.1"]}}
    assert monitored.answer()["whois"]["registrar"] == "amber"
    assert monitored.run({"rdapdomain": {"whois.registrar": "basalt"}}).changes


def test_a_source_that_comes_first_but_is_silent_keeps_its_value() -> None:
    first, second = ({"whois.registrar": name} for name in ("amber", "basalt"))
    assert changes("domain", {"rdapdomain": first, "whois": second}, {"whois": second}) is None


def test_items_that_only_a_silent_source_has_named_stay() -> None:
    monitored = Monitored("email", tracked=["breach"])
    monitored.run({"hibp": {"breach.services": ["Amber"]}, "xposedornot": {"breach.services": ["Basalt"]}})
    found = monitored.run({"xposedornot": {"breach.services": ["Basalt", "Cobalt"]}})
    assert found.details["breach.services"]["added"] == ["Cobalt"]
    assert found.details["breach.services"]["removed"] == []
    assert found.changes is not None
    assert found.changes["breach.count"] == {"old": 2, "new": 3}


def test_false_becomes_true_though_another_source_has_never_answered() -> None:
    found = changes(
        "domain", {"urlhaus": {"threat.malicious": False}}, {"urlhaus": {"threat.malicious": True}}
    )
    assert found is not None
    assert found["threat.malicious"] == {"old": False, "new": True}


def test_the_verdict_changes_with_the_fields_that_it_follows_from() -> None:
    score = "threat.abuse_score"
    found = changes("ip", {"abuseipdb": {score: 1.0}}, {"abuseipdb": {score: 90.0}})
    assert found is not None
    assert found.keys() == {score, "verdict.level", "verdict.reasons"}
    assert found["verdict.level"] == {"old": "clean", "new": "malicious"}


def test_the_time_that_clocks_show_is_no_change() -> None:
    monitored = Monitored("ip", tracked=["timezone"])
    zone = {"dbip": {"timezone.name": "Europe/Berlin"}}
    monitored.run(zone)
    summer = monitored.answer()["timezone"]["utc_offset"]
    monitored.moment += 180 * DAY
    assert monitored.run(zone | {"ptr": {"hostname": "a.example"}}).changes is None
    assert monitored.answer()["timezone"]["utc_offset"] != summer


@pytest.mark.parametrize(
    ("kind", "source", "path", "old", "new"),
    [
        ("domain", "dns", "dns.ns", ["a.example", "b.example"], ["B.example", "a.EXAMPLE"]),
        ("domain", "dns", "dns.mx", ["192.0.2.1", "192.0.2.2"], ["192.0.2.2", "192.0.2.1", "192.0.2.2"]),
        ("domain", "hosting", "hosting.country_code", "de", "DE"),
        ("email", "hibp", "breach.services", ["Last.fm"], ["LastFM"]),
        ("email", "gravatar", "company_domain", "Example.com", "example.com"),
        ("company", "wikidata", "profile.employee_count", 10, 10.0),
    ],
)
def test_another_way_to_write_the_same_is_no_change(
    kind: str, source: str, path: str, old: Any, new: Any
) -> None:
    assert changes(kind, {source: {path: old}}, {source: {path: new}}, tracked=[path]) is None


@pytest.mark.parametrize(
    ("kind", "source", "path", "old", "new"),
    [
        ("domain", "dns", "dns.txt", ["v=spf1 -all"], ["v=SPF1 -all"]),
        ("domain", "rdapdomain", "whois.registrar", "amber", "Amber"),
        ("domain", "rdapdomain", "whois.registered", True, False),
        ("company", "wikidata", "profile.sic_codes", ["1"], ["1", "2"]),
    ],
)
def test_other_text_is_a_change_where_case_has_a_meaning(
    kind: str, source: str, path: str, old: Any, new: Any
) -> None:
    assert changes(kind, {source: {path: old}}, {source: {path: new}}) == {path: {"old": old, "new": new}}


class TestTolerance:
    """`employee_count` may move by 10."""

    PATH = "profile.employee_count"

    def told(self, *counts: int | None) -> list[tuple[Any, Any] | None]:
        monitored = Monitored("company", tracked=[self.PATH], tolerance={self.PATH: 10})
        words = [{} if count is None else {self.PATH: count} for count in counts]
        found = [monitored.run({"wikidata": one}).changes for one in words]
        return [(one[self.PATH]["old"], one[self.PATH]["new"]) if one else None for one in found]

    def test_a_move_within_it_is_no_change(self) -> None:
        assert self.told(100, 110, 90) == [None, None, None]

    def test_a_move_beyond_it_is_one(self) -> None:
        assert self.told(100, 111) == [None, (100, 111)]

    def test_small_moves_add_up_since_the_number_last_told(self) -> None:
        assert self.told(100, 106, 112, 118, 123) == [None, None, (100, 112), None, (112, 123)]

    @given(st.lists(st.integers(0, 60) | st.floats(0, 60), min_size=1))
    def test_the_number_last_told_is_never_farther_off_than_it(self, counts: list[float]) -> None:
        monitored = Monitored("ip", tracked=["threat.abuse_score"], tolerance={"threat.abuse_score": 10})
        told = counts[0]
        for count in counts:
            changes = monitored.run({"abuseipdb": {"threat.abuse_score": count}}).changes
            if changes:
                assert changes["threat.abuse_score"] == {"old": told, "new": count}
                assert abs(count - told) > 10
                told = count
            assert abs(count - told) <= 10

    def test_becoming_unknown_is_always_a_change(self) -> None:
        assert self.told(100, 105, None, 100) == [None, None, (100, None), (None, 100)]

    def test_a_source_that_is_heard_for_the_first_time_is_measured_from_then_on(self) -> None:
        monitored = Monitored("company", tracked=[self.PATH], tolerance={self.PATH: 10})
        runs = [
            {"sec": {self.PATH: 100}},
            {"sec": {self.PATH: 105}, "wikidata": {self.PATH: 500}},
            {"sec": {self.PATH: 106}},
            {"wikidata": {self.PATH: 511}},
        ]
        found = [monitored.run(said).changes for said in runs]
        assert found == [None, None, None, {self.PATH: {"old": 500, "new": 511}}]


class TestObjectsInLists:
    """What is told of officers, who are known by name and role, and of other objects."""

    PATH = "profile.officers"

    def details(self, path: str, old: list[Any], new: list[Any]) -> dict[str, Any]:
        monitored = Monitored("company", tracked=[path])
        source = "hunterdomain" if path == "results" else "companieshouse"
        monitored.run({source: {path: old}})
        details = monitored.run({source: {path: new}}).details.get(path, {})
        return {name: details[name] for name in ("added", "removed", "changed") if details.get(name)}

    def test_another_order_is_no_change(self) -> None:
        ada, bob = officer("Ada", "director"), officer("Bob", "secretary")
        assert self.details(self.PATH, [ada, bob], [bob, ada, ada]) == {}

    def test_one_of_another_name_is_added_and_removed(self) -> None:
        ada, bob = officer("Ada", "director"), officer("Bob", "director")
        assert self.details(self.PATH, [ada], [bob]) == {"added": [bob], "removed": [ada]}

    def test_a_changed_member_shows_as_changed(self) -> None:
        old, new = officer("Ada", None), officer("ADA", None, nationality="British")
        assert self.details(self.PATH, [old], [new]) == {"changed": [{"old": old, "new": new}]}

    def test_two_of_one_key_are_told_apart_by_the_rest(self) -> None:
        one, two = officer("Ada", "director", appointed_on="2019"), officer("Ada", "director")
        three = officer("Ada", "director", appointed_on="2021")
        assert self.details(self.PATH, [one, two], [two, one]) == {}
        assert self.details(self.PATH, [one, two], [three, one]) == {"changed": [{"old": two, "new": three}]}
        assert self.details(self.PATH, [one, two], [two]) == {"removed": [one]}

    def test_a_person_is_the_same_when_their_address_becomes_known(self) -> None:
        old, new = person(name="Ada"), person(name="Ada", email="ada@example.com")
        assert self.details("results", [old], [new]) == {"changed": [{"old": old, "new": new}]}

    def test_people_of_whom_only_other_addresses_are_known_are_not_the_same(self) -> None:
        old, new = person(email="a@example.com"), person(email="b@example.com")
        assert self.details("results", [old], [new]) == {"added": [new], "removed": [old]}

    def test_only_members_that_are_watched_count(self) -> None:
        runs = [
            {"companieshouse": {self.PATH: [officer("Ada", "director", nationality=one)]}} for one in "ab"
        ]
        assert changes("company", *runs, ignored=["*.nationality"]) is None
        assert changes("company", *runs, tracked=["*.nationality"])


def test_mentions_beyond_the_first_page_are_compared_too() -> None:
    def mention(number: int) -> dict[str, Any]:
        date = f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z"
        return {"source": "amber", "domain": None, "title": str(number), "body": None, "crawl_date": date}

    many = [mention(number) for number in range(250)]
    monitored = Monitored("darkweb")
    monitored.run({"intelx": {"results": many}})
    details = monitored.run({"intelx": {"results": [*many, mention(250)]}}).details["results"]
    scored = mention(250) | {"hackishness": hackishness(mention(250)), "matched": True}
    assert (details["added"], details["removed"]) == ([scored], [])


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("tls", {"ssl.issuer": "Let's Encrypt R12"}, {"ssl.issuer": "Let's Encrypt R13"}),
        ("tls", {"ssl.issuer": "Amazon Amazon RSA 2048 M02"}, {"ssl.issuer": "Amazon Amazon RSA 2048 M04"}),
        ("dns", {"dns.soa": "a. b. 1 7200 900"}, {"dns.soa": "A. b. 2 7200 900"}),
    ],
)
def test_what_comes_round_by_itself_is_no_change(source: str, old: Any, new: Any) -> None:
    assert changes("domain", {source: old}, {source: new}) is None


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("tls", {"ssl.issuer": "Let's Encrypt R12"}, {"ssl.issuer": "Google Trust Services WE1"}),
        ("hosting", {"hosting.asn": 1}, {"hosting.asn": 2}),
        ("hosting", {"hosting.asn": 1}, {}),
    ],
)
def test_another_authority_and_another_network_are_changes(source: str, old: Any, new: Any) -> None:
    assert changes("domain", {source: old}, {source: new})


class TestUnsure:
    """What a source could not find out this time, while it has answered."""

    SOA = "dns.soa"

    def domain(self) -> Monitored:
        return Monitored("domain", tracked=["dns"], tolerance={self.SOA: 0})

    def test_what_it_could_not_find_out_it_says_again(self) -> None:
        monitored = self.domain()
        monitored.run({"dns": {"dns.mx": ["1 amber"], self.SOA: "one"}})
        found = monitored.run({"dns": {"dns.mx": ["1 basalt"], self.SOA: None}})
        assert found.changes == {"dns.mx": {"old": ["1 amber"], "new": ["1 basalt"]}}
        assert monitored.answer()["dns"]["soa"] == "one"

    def test_a_change_is_told_when_it_finds_out_again(self) -> None:
        monitored = self.domain()
        for word in ("one", None):
            monitored.run({"dns": {self.SOA: word}})
        found = monitored.run({"dns": {self.SOA: "two"}})
        assert found.changes == {self.SOA: {"old": "one", "new": "two"}}
        since = {"after": MOMENT, "by": MOMENT + 2 * DAY}
        assert found.details[self.SOA] == {"since": since, "sources": ["dns"]}

    def test_the_moment_at_which_it_found_out_outlasts_a_silence(self) -> None:
        monitored = self.domain()
        for said in ({"dns": {self.SOA: "one"}}, {"dns": {self.SOA: None}}, {}, {"dns": {self.SOA: None}}):
            monitored.run(said)
        found = monitored.run({"dns": {self.SOA: "two"}})
        assert found.details[self.SOA]["since"]["after"] == MOMENT

    def test_what_it_finds_out_for_the_first_time_is_no_change(self) -> None:
        monitored = self.domain()
        monitored.run({"dns": {"dns.mx": ["1 amber"], self.SOA: None}})
        assert monitored.run({"dns": {"dns.mx": ["1 amber"], self.SOA: "one"}}).changes is None
        assert monitored.run({"dns": {"dns.mx": ["1 amber"], self.SOA: "two"}}).changes

    def test_what_was_not_there_when_it_last_found_out_can_appear(self) -> None:
        monitored = self.domain()
        monitored.run({"dns": {}})
        monitored.run({"dns": {self.SOA: None}})
        found = monitored.run({"dns": {self.SOA: "one"}})
        assert found.changes == {self.SOA: {"old": None, "new": "one"}}

    def test_a_number_is_measured_anew_from_where_another_source_has_found_it_out(self) -> None:
        path = "profile.employee_count"
        monitored = Monitored("company", tracked=[path], tolerance={path: 10})
        runs = [
            {"sec": {path: 100}, "wikidata": {path: None}},
            {"sec": {path: 105}, "wikidata": {path: 500}},
            {"wikidata": {path: 509}},
            {"wikidata": {path: 511}},
        ]
        found = [monitored.run(said).changes for said in runs]
        assert found == [None, None, None, {path: {"old": 500, "new": 511}}]


class TestEditions:
    """Sources that have another parser, speak of something else, or are switched off."""

    AMBER: ClassVar[Said] = {"rdapdomain": {"whois.registrar": "amber"}}
    BASALT: ClassVar[Said] = {"rdapdomain": {"whois.registrar": "basalt"}}
    NEXT: ClassVar[Mapping[str, str]] = {**EDITIONS, "rdapdomain": "2"}

    def test_what_another_edition_says_is_new_and_no_change(self) -> None:
        monitored = Monitored("domain")
        monitored.run(self.AMBER)
        assert monitored.run(self.BASALT, self.NEXT).changes is None
        assert monitored.run(self.AMBER, self.NEXT).changes

    def test_what_the_edition_before_has_said_is_said_again_until_the_new_one_answers(self) -> None:
        monitored = Monitored("domain")
        monitored.run(self.AMBER)
        assert monitored.run({}, self.NEXT).changes is None
        assert monitored.answer()["whois"]["registrar"] == "amber"
        assert monitored.run(self.BASALT, self.NEXT).changes is None

    def test_what_another_edition_could_not_find_out_is_not_taken_from_the_one_before(self) -> None:
        monitored = Monitored("domain")
        monitored.run(self.AMBER)
        monitored.run({"rdapdomain": {"whois.registrar": None}}, self.NEXT)
        assert monitored.answer()["whois"]["registrar"] is None
        assert monitored.run(self.BASALT, self.NEXT).changes is None

    def test_what_a_source_has_said_is_forgotten_when_it_is_switched_off(self) -> None:
        monitored = Monitored("domain")
        monitored.run({**self.AMBER, "whois": {"whois.registrar": "basalt"}})
        left = {name: edition for name, edition in EDITIONS.items() if name != "rdapdomain"}
        assert monitored.run({}, left).changes is None
        assert monitored.answer()["whois"]["registrar"] == "basalt"
        found = monitored.run({"whois": {"whois.registrar": "cobalt"}}, left)
        assert found.changes == {"whois.registrar": {"old": "basalt", "new": "cobalt"}}

    def test_what_a_source_says_that_is_switched_on_again_is_no_change(self) -> None:
        monitored = Monitored("domain")
        monitored.run(self.AMBER)
        monitored.run({}, {})
        assert monitored.run(self.BASALT).changes is None


class TestDetails:
    """Since when a change is, and who says so."""

    def test_a_change_lies_between_the_moments_at_which_its_source_was_heard(self) -> None:
        monitored = Monitored("domain")
        monitored.run({"rdapdomain": {"whois.registrar": "amber"}, "dns": {"dns.mx": ["192.0.2.1"]}})
        monitored.run({"dns": {"dns.mx": ["192.0.2.1"]}})
        details = monitored.run(
            {"rdapdomain": {"whois.registrar": "basalt"}, "dns": {"dns.mx": ["192.0.2.2"]}}
        ).details
        assert details["whois.registrar"] == {
            "since": {"after": MOMENT, "by": MOMENT + 2 * DAY},
            "sources": ["rdapdomain"],
        }
        assert details["dns.mx"]["since"] == {"after": MOMENT + DAY, "by": MOMENT + 2 * DAY}

    def test_who_says_so_has_said_something_else_before(self) -> None:
        monitored = Monitored("domain")
        monitored.run({"quad9": {"threat.malicious": False}, "urlhaus": {"threat.malicious": False}})
        found = monitored.run({"quad9": {"threat.malicious": True}, "urlhaus": {"threat.malicious": False}})
        assert found.details["threat.malicious"]["sources"] == ["quad9"]
        assert found.details["verdict.level"]["sources"] == ["quad9"]
