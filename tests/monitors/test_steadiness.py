"""Levels change when their cause does, and addresses are the same within a network and a country."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.monitors.snapshots import Said, dump, load
from tests.monitors.monitored import Monitored
from tests.monitors.worlds import MOMENT

SCORE, LEVEL, REASONS = "threat.abuse_score", "verdict.level", "verdict.reasons"
COUNT = "malware.malicious_count"


class Judged(Monitored):
    """An address that is judged by its score alone, unless a scanner calls it malicious."""

    def __init__(self, tracked: Collection[str] = (), tolerance: Mapping[str, float] | None = None) -> None:
        super().__init__("ip", tracked, tolerance=tolerance)

    def compose(self, words: Said) -> dict[str, Any]:
        made = super().compose(words)
        threat, engines = made["threat"], made["malware"]["malicious_count"] or 0
        bad = (threat["abuse_score"] or 0) >= 75 or threat["classification"] == "malicious" or engines >= 3
        code = "bad" if bad else "good"
        level = "malicious" if bad else "suspicious"
        return made | {"verdict": {"level": level, "reasons": [{"code": code, "source": "abuseipdb"}]}}


def found(monitored: Monitored, score: float) -> dict[str, Any]:
    return monitored.run({"abuseipdb": {SCORE: score}}).changes or {}


def test_a_score_that_goes_to_and_fro_across_a_line_moves_no_verdict() -> None:
    monitored = Judged()
    assert [found(monitored, score) for score in (74, 75, 74, 76, 70, 80)] == [{}] * 6


def test_a_score_that_leaves_its_tolerance_moves_the_verdict_with_it() -> None:
    monitored = Judged()
    for score in (70, 76):
        assert found(monitored, score) == {}
    assert found(monitored, 81) == {
        SCORE: {"old": 70, "new": 81},
        LEVEL: {"old": "suspicious", "new": "malicious"},
        REASONS: {
            "old": [{"code": "good", "source": "abuseipdb"}],
            "new": [{"code": "bad", "source": "abuseipdb"}],
        },
    }
    assert found(monitored, 74) == {}


def test_a_monitor_that_tracks_the_verdict_alone_hears_no_noise_either() -> None:
    monitored = Judged([LEVEL])
    scores = (74, 76, 74, 90, 76, 74, 65)
    assert [score for score in scores if found(monitored, score)] == [90, 65]


def test_another_cause_moves_the_verdict_whatever_the_score_does() -> None:
    monitored = Judged([LEVEL])
    monitored.run({"abuseipdb": {SCORE: 74}, "greynoise": {"threat.classification": "benign"}})
    told = monitored.run({"abuseipdb": {SCORE: 76}, "greynoise": {"threat.classification": "malicious"}})
    assert told.changes == {LEVEL: {"old": "suspicious", "new": "malicious"}}
    told = monitored.run({"abuseipdb": {SCORE: 74}, "greynoise": {"threat.classification": "benign"}})
    assert told.changes == {LEVEL: {"old": "malicious", "new": "suspicious"}}


def test_with_a_tolerance_of_0_a_verdict_follows_every_score() -> None:
    monitored = Judged(tolerance={SCORE: 0})
    found(monitored, 74)
    assert found(monitored, 75)[LEVEL] == {"old": "suspicious", "new": "malicious"}


def test_a_silence_in_between_changes_nothing_of_what_a_verdict_rests_on() -> None:
    monitored = Judged([LEVEL])
    for said in ({"abuseipdb": {SCORE: 70}}, {"abuseipdb": {SCORE: 78}}, {}, {"abuseipdb": {SCORE: 80}}):
        assert monitored.run(said).changes is None
    assert monitored.run({"abuseipdb": {SCORE: 81}}).changes


def test_what_a_verdict_rests_on_is_stored() -> None:
    monitored = Judged([LEVEL])
    for score in (70, 78):
        found(monitored, score)
    assert monitored.last
    monitored.last = load(dump(monitored.last))
    assert monitored.last.held == {"abuseipdb": {SCORE: 70}}
    assert found(monitored, 80) == {}


def test_one_engine_more_or_less_moves_no_verdict() -> None:
    monitored = Judged()
    runs = [monitored.run({"virustotal": {COUNT: count}}).changes or {} for count in (2, 3, 4)]
    assert runs[:2] == [{}, {}] and runs[2].keys() >= {COUNT, LEVEL}


@given(st.lists(st.integers(0, 100), min_size=2), st.integers(0, 2**32))
def test_a_level_never_changes_while_its_score_is_within_its_tolerance(scores: list[int], seed: int) -> None:
    chance = random.Random(seed)
    monitored, last = Judged(), scores[0]
    for number, score in enumerate(scores):
        told = found(monitored, score) if not number or chance.random() < 0.9 else {}
        if LEVEL in told:
            assert SCORE in told and abs(score - last) > 10
        if SCORE in told:
            last = score


REPORTED = "threat.last_reported_at"


def reports(every: int, days: int, runs: int, tolerance: float = 30) -> list[tuple[int, str]]:
    """The levels that are told of a bad address: it is reported, and a run is made, every so many days."""
    monitored = Monitored("ip", [LEVEL], tolerance={REPORTED: tolerance})
    levels: list[tuple[int, str]] = []
    for number in range(runs):
        today = number * days
        monitored.moment = MOMENT + timedelta(days=today, minutes=number % 7)
        last = MOMENT + timedelta(days=today - today % every, hours=-3)
        said = {
            SCORE: 90 + number % 3, "threat.total_reports": 500, "threat.distinct_users": 40,
            REPORTED: f"{last:%Y-%m-%dT%H:%M:%SZ}",
        }  # fmt: skip
        found = monitored.run({"abuseipdb": said}).changes or {}
        if LEVEL in found:
            levels.append((today, found[LEVEL]["new"]))
    return levels


@pytest.mark.parametrize("days", [1, 7, 31, 91], ids=["daily", "weekly", "monthly", "quarterly"])
@pytest.mark.parametrize("every", [1, 2, 5, 20, 30])
@pytest.mark.parametrize("tolerance", [0, 30, 90])
def test_an_address_that_is_reported_again_and_again_keeps_its_level(
    days: int, every: int, tolerance: float
) -> None:
    assert reports(every, days, 130 // days + 5, tolerance) == []


def test_a_report_after_a_long_rest_moves_the_verdict() -> None:
    assert (60, "malicious") in reports(60, 1, 70)


@pytest.mark.parametrize("days", [1, 31, 91])
def test_a_scanner_that_is_seen_again_and_again_keeps_its_level(days: int) -> None:
    monitored = Monitored("ip", [LEVEL])
    for number in range(10 + 200 // days):
        monitored.moment = MOMENT + timedelta(days=number * days)
        seen = (monitored.moment - timedelta(days=number % 3)).date().isoformat()
        said = {"threat.classification": "malicious", "threat.last_seen": seen}
        assert monitored.run({"greynoise": said}).changes is None


class TestNetworks:
    """Addresses are compared by their network and country."""

    PLACES: ClassVar[dict[str, str]] = {"192.0.2.": "AS1 US", "198.51.100.": "AS2 US", "203.0.113.": "AS1 DE"}

    def place(self, address: str) -> str:
        return next((place for start, place in self.PLACES.items() if address.startswith(start)), address)

    def domain(self, **settings: Any) -> Monitored:
        return Monitored("domain", tracked=["dns.a", "hosting.ip"], network_of=self.place, **settings)

    def test_another_address_of_the_same_network_and_country_is_no_change(self) -> None:
        monitored = self.domain()
        for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
            said = {"dns": {"dns.a": [address]}, "hosting": {"hosting.ip": address}}
            assert monitored.run(said).changes is None

    @pytest.mark.parametrize("other", ["198.51.100.1", "203.0.113.1", "233.252.0.1"])
    def test_one_of_another_network_or_country_is_a_change_since_the_addresses_last_told(
        self, other: str
    ) -> None:
        monitored = self.domain()
        for addresses in (["192.0.2.1"], ["192.0.2.2"]):
            monitored.run({"dns": {"dns.a": addresses}})
        told = monitored.run({"dns": {"dns.a": ["192.0.2.1", "192.0.2.2", other]}})
        assert told.changes == {"dns.a": {"old": ["192.0.2.1"], "new": ["192.0.2.1", "192.0.2.2", other]}}
        assert told.details["dns.a"]["added"] == ["192.0.2.2", other]

    def test_networks_that_come_round_are_told_once_by_their_names(self) -> None:
        monitored = self.domain()
        runs = [["192.0.2.1"], ["198.51.100.1"], ["192.0.2.2"], ["198.51.100.2"], ["192.0.2.3"]]
        found = [monitored.run({"dns": {"dns.a": addresses}}) for addresses in runs]
        assert [bool(one.changes) for one in found] == [False, True, False, False, False]
        assert [one.details.get("dns.a", {}).get("rotating") for one in found] == [
            None, None, ["AS2 US", "AS1 US"], None, None,
        ]  # fmt: skip

    def test_with_a_tolerance_of_0_every_other_address_is_a_change(self) -> None:
        monitored = self.domain(tolerance={"dns.a": 0})
        monitored.run({"dns": {"dns.a": ["192.0.2.1"]}})
        assert monitored.run({"dns": {"dns.a": ["192.0.2.2"]}}).changes

    def test_the_owner_of_an_address_that_comes_round_is_told_once(self) -> None:
        monitored = Monitored("domain", tracked=["hosting.asn"])
        found = [monitored.run({"hosting": {"hosting.asn": number}}) for number in (1, 2, 1, 2, 3)]
        assert [bool(one.changes) for one in found] == [False, True, False, False, True]
        assert [bool(one.details) for one in found] == [False, True, True, False, True]
