"""What a source says when it is first heard: told once, and a change only where its date says so."""

from __future__ import annotations

from typing import Any

from models.monitors.defaults import DEFAULTS
from models.monitors.first_hearing import Dating
from tests.monitors.monitored import Monitored
from tests.monitors.worlds import MOMENT

LATER, EARLIER = "2026-11-24", "2026-11-01"


def dated(kind: str, **settings: Any) -> Monitored:
    monitored = Monitored(kind, **settings)
    monitored.dating = Dating(MOMENT, DEFAULTS[kind].dates)
    return monitored


def mention(title: str, crawled: str, source: str) -> dict[str, Any]:
    return {
        "source": source, "title": title, "body": "b", "domain": "d.example", "hackishness": 0.1,
        "matched": True,
        "crawl_date": crawled, "emails": [], "leak": None, "chat": None, "irc": None, "paste": None,
        "forum": None, "market": None, "ips": [], "cves": [],
    }  # fmt: skip


def test_what_is_first_heard_after_the_baseline_is_told_once_and_no_change() -> None:
    monitored = dated("ip")
    monitored.run({"abuseipdb": {"threat.abuse_score": 3}})
    found = monitored.run(
        {"abuseipdb": {"threat.abuse_score": 3}, "greynoise": {"threat.classification": "malicious"}}
    )
    assert found.changes is None
    assert found.first_heard["threat.classification"] == {"value": "malicious", "sources": ["greynoise"]}
    found = monitored.run(
        {"abuseipdb": {"threat.abuse_score": 3}, "greynoise": {"threat.classification": "malicious"}}
    )
    assert (found.changes, found.first_heard) == (None, {})
    found = monitored.run({"greynoise": {"threat.classification": "benign"}})
    assert found.changes is not None
    assert found.changes["threat.classification"] == {"old": "malicious", "new": "benign"}


def test_in_the_first_run_nothing_is_told() -> None:
    assert dated("ip").run({"greynoise": {"threat.classification": "malicious"}}).first_heard == {}


def test_findings_dated_after_the_start_are_changes_and_the_others_are_told() -> None:
    monitored = dated("darkweb", tracked=["results"])
    monitored.run({"ahmia": {"results": [mention("a", EARLIER, "ahmia")]}})
    old, new = mention("old", EARLIER, "intelx"), mention("new", LATER, "intelx")
    found = monitored.run(
        {"ahmia": {"results": [mention("a", EARLIER, "ahmia")]}, "intelx": {"results": [old, new]}}
    )
    assert found.changes is not None
    assert [one["title"] for one in found.changes["results"]["new"]] == ["a", "new"]
    assert [one["title"] for one in found.changes["results"]["old"]] == ["a"]
    assert [one["title"] for one in found.details["results"]["added"]] == ["new"]
    assert found.details["results"]["sources"] == ["intelx"]
    assert [one["title"] for one in found.first_heard["results"]["value"]] == ["old"]


def test_a_domain_registered_after_the_start_has_changed() -> None:
    for created, is_change in ((LATER, True), (EARLIER, False)):
        monitored = dated("domain", tracked=["whois"])
        monitored.run({"dns": {"dns.a": ["192.0.2.1"]}})
        found = monitored.run({"rdapdomain": {"whois.created": created, "whois.registrar": "R"}})
        told = found.changes or {} if is_change else found.first_heard
        assert {"whois.created", "whois.registrar"} <= told.keys()
        assert bool(found.changes) == is_change


def test_what_could_not_be_found_out_before_is_first_heard() -> None:
    monitored = dated("domain", tracked=["dns"])
    monitored.run({"dns": {"dns.a": ["192.0.2.1"], "dns.caa": None}})
    found = monitored.run({"dns": {"dns.a": ["192.0.2.1"], "dns.caa": ["0 issue ca.example"]}})
    assert found.changes is None
    assert found.first_heard == {"dns.caa": {"value": ["0 issue ca.example"], "sources": ["dns"]}}
