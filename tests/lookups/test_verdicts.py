"""A verdict weighs all that is known: what is well known stays clean, and what is bad does not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from providers.lookup.composition import compose
from providers.lookup.result import SourceResult
from providers.registry import KINDS
from providers.sources.verdicts import DOMAIN, EMAIL, IP
from providers.sources.wellknown import table

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
BAD: list[dict[str, Any]] = json.loads(Path(__file__).with_name("known_bad.json").read_text())
Said = dict[str, dict[str, Any]]
OFF = SourceResult("skipped", detail="disabled")


def verdict(kind: str, said: Said, target: str = "", **silent: SourceResult) -> dict[str, Any]:
    """The verdict where these sources say so, some are silent, and all others are off."""
    chosen = KINDS[kind]
    told = silent | {name: SourceResult("ok", _known(fields)) for name, fields in said.items()}
    assert told.keys() <= {source.spec.name for source in chosen.sources}
    outcomes = [(source, told.get(source.spec.name, OFF)) for source in chosen.sources]
    query = chosen.normalise(target or chosen.example, "")
    return compose(chosen, query, outcomes, NOW).data["verdict"]


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in fields.items() if value is not None}


def codes(verdict: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in verdict["reasons"]]


# All that is said of well-known services by mistake, at once: customers' traffic is reported as theirs,
# engines take an address in a sample of malware for its server, and VPN services resolve names there.
NOISE_OF_ADDRESSES: Said = {
    "abuseipdb": {
        "threat.abuse_score": 40, "threat.total_reports": 2600, "threat.distinct_users": 310,
        "threat.last_reported_at": "2026-11-22T09:00:00Z",
    },
    "virustotal": {
        "malware.malicious_count": 6, "malware.suspicious_count": 2, "malware.harmless_count": 58,
        "malware.undetected_count": 28,
    },
    "greynoise": {
        "threat.is_scanner": True, "threat.is_known_service": False, "threat.classification": "unknown",
    },
    "abstractip": {"security.is_vpn": True, "security.is_proxy": True, "security.is_abuse": True},
    "x4bnet": {"security.is_vpn": True, "security.is_hosting": True},
}  # fmt: skip
# Malware lies on hosts for sharing code, a resolver withholds one for an hour, and some engines are wrong.
NOISE_OF_DOMAINS: Said = {
    "virustotaldomain": {
        "threat.malicious": True, "threat.categories": ["malware"], "threat.malicious_count": 4,
        "threat.suspicious_count": 2, "threat.harmless_count": 66, "threat.undetected_count": 22,
    },
    "urlhaus": {"threat.categories": ["abused_legit_malware", "malware_download"]},
    "quad9": {"threat.malicious": True},
}  # fmt: skip
ADDRESSES = [str(address) for address in table().addresses]
NAMES = sorted(table().domains)


def test_the_table_has_more_than_two_hundred_targets() -> None:
    assert len(ADDRESSES) + len(NAMES) >= 204
    assert {"1.1.1.1", "8.8.8.8", "9.9.9.9"} <= set(ADDRESSES) and "github.com" in NAMES


def known(kind: str, target: str) -> Said:
    """Return what the table itself says."""
    name = {"ip": "wellknown", "domain": "wellknowndomain"}[kind]
    source = next(one for one in KINDS[kind].sources if one.spec.name == name)
    return {name: source.find(KINDS[kind].normalise(target, ""), None)}  # pyright: ignore


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_well_known_address_is_clean_under_the_worst_noise(address: str) -> None:
    found = verdict("ip", NOISE_OF_ADDRESSES | known("ip", address), address)
    assert found["level"] == "clean", found


@pytest.mark.parametrize("name", NAMES)
def test_a_well_known_name_is_clean_under_the_worst_noise(name: str) -> None:
    found = verdict("domain", NOISE_OF_DOMAINS | known("domain", name), name)
    assert found["level"] == "clean", found


def test_names_below_a_well_known_one_are_not_known() -> None:
    assert known("domain", "www.github.com") == known("domain", "github.com")
    assert known("domain", "evil.github.com") == {"wellknowndomain": {}}


def test_what_is_worse_than_noise_makes_even_a_well_known_address_bad() -> None:
    listed = {name: {"security.is_abuse": True} for name in ("spamhaus", "urlhausip", "threatfoxip")}
    found = verdict("ip", NOISE_OF_ADDRESSES | listed | known("ip", "9.9.9.9"), "9.9.9.9")
    assert found["level"] == "malicious"


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["why"])
def test_what_is_known_to_be_bad_is_not_clean(case: dict[str, Any]) -> None:
    found = verdict(case["kind"], case["said"])
    assert found["level"] == case["level"], found


# What is known without the table


RESOLVER: Said = {
    "abuseipdb": {
        "threat.abuse_score": 0, "threat.total_reports": 2600, "threat.distinct_users": 310,
        "threat.last_reported_at": "2026-11-22T09:00:00Z", "threat.is_whitelisted": True,
    },
    "virustotal": NOISE_OF_ADDRESSES["virustotal"],
    "greynoise": {"threat.is_known_service": True, "threat.classification": "benign"},
    "x4bnet": {"security.is_vpn": True},
}  # fmt: skip


def test_a_whitelisted_address_of_a_known_service_is_clean_without_the_table_too() -> None:
    found = verdict("ip", RESOLVER)
    assert found["level"] == "clean"
    assert {"whitelisted", "known_service", "benign_scanner", "engines_object"} <= set(codes(found))


ENGINES = (
    "malware.malicious_count",
    "malware.suspicious_count",
    "malware.harmless_count",
    "malware.undetected_count",
)


@pytest.mark.parametrize(
    ("counts", "level", "code"),
    [
        ((0, 0, 60, 34), "clean", "no_engine_objects"),
        ((1, 0, 84, 10), "clean", "most_engines_find_nothing"),
        ((2, 0, 60, 32), "clean", "most_engines_find_nothing"),
        ((2, 1, 20, 71), "unknown", "an_engine_objects"),
        ((0, 3, 60, 31), "suspicious", "engines_are_wary"),
        ((3, 0, 60, 31), "suspicious", "engines_object"),
        ((9, 0, 54, 31), "suspicious", "engines_object"),
        ((10, 0, 54, 30), "malicious", "many_engines_object"),
        ((3, 0, 2, 1), "malicious", "many_engines_object"),
    ],
)
def test_engines_count_by_their_share(counts: tuple[int, ...], level: str, code: str) -> None:
    found = verdict("ip", {"virustotal": dict(zip(ENGINES, counts, strict=True))})
    assert (found["level"], code in codes(found)) == (level, True), found


@pytest.mark.parametrize(
    ("score", "reports", "people", "when", "level", "code"),
    [
        (0, 0, 0, None, "clean", "never_reported"),
        (0, 3, 2, "2026-11-20T00:00:00Z", "clean", "little_abuse_reported"),
        (20, 12, 4, "2026-11-20T00:00:00Z", "clean", "little_abuse_reported"),
        (20, 400, 80, "2026-11-20T00:00:00Z", "unknown", "often_reported"),
        (40, 30, 9, "2026-11-20T00:00:00Z", "suspicious", "some_abuse_reported"),
        (40, 2, 1, "2026-11-20T00:00:00Z", "unknown", "some_abuse_reported_by_few"),
        (40, 30, 9, "2026-09-20T00:00:00Z", "unknown", "some_abuse_reported_long_ago"),
        (90, 30, 9, "2026-11-20T00:00:00Z", "malicious", "abuse_reported"),
        (90, 30, 1, "2026-11-20T00:00:00Z", "suspicious", "abuse_reported_by_few"),
        (90, 30, 9, "2026-09-20T00:00:00Z", "suspicious", "abuse_reported_long_ago"),
    ],
)
def test_reports_count_by_their_number_and_age(
    score: int, reports: int, people: int, when: str | None, level: str, code: str
) -> None:
    said = {
        "threat.abuse_score": score, "threat.total_reports": reports, "threat.distinct_users": people,
        "threat.last_reported_at": when,
    }  # fmt: skip
    found = verdict("ip", {"abuseipdb": said})
    assert (found["level"], codes(found)) == (level, [code])


# Reasons


def test_each_reason_names_its_field_its_source_and_its_weight() -> None:
    lists = {name: {"security.is_abuse": True} for name in ("spamhaus", "abstractip")}
    assert verdict("ip", lists | {"tor": {"security.is_tor": True}})["reasons"] == [
        {"code": "listed_for_abuse", "source": "spamhaus", "field": "security.is_abuse", "weight": 80},
        {"code": "listed_for_abuse", "source": "abstractip", "field": "security.is_abuse", "weight": 40},
        {"code": "tor_exit", "source": "tor", "field": "security.is_tor", "weight": 30},
    ]


@pytest.mark.parametrize("signs", [IP, DOMAIN, EMAIL], ids=["ip", "domain", "email"])
def test_each_sign_has_a_name_of_its_own_and_a_weight_that_fits_its_sort(signs: tuple[Any, ...]) -> None:
    assert len({sign.code for sign in signs}) == len(signs)
    assert all((sign.weight > 0) == (sign.sort in ("use", "accusation")) for sign in signs)


# Who is silent


TIMEOUT = SourceResult("timeout")


def test_what_is_clean_beyond_doubt_is_so_while_somebody_is_silent() -> None:
    said = {"abuseipdb": {"threat.abuse_score": 3}}
    assert verdict("ip", said, spamhaus=TIMEOUT)["level"] == "unknown"
    assert verdict("ip", said, ptr=TIMEOUT)["level"] == "clean"
    assert verdict("ip", said | known("ip", "8.8.8.8"), spamhaus=TIMEOUT)["level"] == "clean"
    everybody = dict.fromkeys(("spamhaus", "virustotal", "greynoise", "tor", "x4bnet"), TIMEOUT)
    assert verdict("ip", known("ip", "8.8.8.8"), **everybody)["level"] == "unknown"


def test_what_is_bad_is_so_whoever_is_silent() -> None:
    listed = {"spamhaus": {"security.is_abuse": True}}
    assert verdict("ip", listed, virustotal=TIMEOUT, greynoise=TIMEOUT)["level"] == "malicious"
