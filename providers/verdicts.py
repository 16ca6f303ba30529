"""Whether a target is bad, by rules that one can read: what the sources say → a level with its reasons.

The worst level of which a sign is seen counts. Nothing is called clean while a source that could say
otherwise has not answered, and what nobody has judged is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

Level = Literal["clean", "suspicious", "malicious", "unknown"]
_WORST_FIRST: tuple[Level, ...] = ("malicious", "suspicious", "clean")
_YOUNG_DAYS = 30

Test = Callable[[Any, datetime], bool]


@dataclass(frozen=True)
class Sign:
    """What makes one think that a target is of a level.

    Attributes:
        level: which.
        code: names the sign.
        tests: field → what holds of its value at the moment of the answer, if it is known. All must
            hold; the reason names the sources of the first field.
    """

    level: Level
    code: str
    tests: Mapping[str, Test]

    def holds(self, fields: Mapping[str, Any], moment: datetime) -> bool:
        """Whether all its tests hold of the fields, path → value."""
        for path, test in self.tests.items():
            if path not in fields or not test(fields[path], moment):
                return False
        return True


def _true(value: Any, now: datetime) -> bool:
    return value is True


def _false(value: Any, now: datetime) -> bool:
    return value is False


def _is(*wanted: str) -> Test:
    return lambda value, now: value in wanted


def _within(least: float, most: float) -> Test:
    return lambda value, now: least <= value <= most


def _has(name: str) -> Test:
    return lambda value, now: name in value


def _any(value: Any, now: datetime) -> bool:
    return bool(value)


def _young(value: str, now: datetime) -> bool:
    try:
        created = date.fromisoformat(value[:10])
    except ValueError:
        return False
    return 0 <= (now.date() - created).days < _YOUNG_DAYS


MOST = float("inf")
INFOSTEALER = "Infostealer malware"
"""The name under which breaches list a computer that was infected."""

IP = (
    Sign("malicious", "listed_for_abuse", {"security.is_abuse": _true}),
    Sign("malicious", "abuse_reported", {"threat.abuse_score": _within(75, 100)}),
    Sign("malicious", "malicious_scanner", {"threat.classification": _is("malicious")}),
    Sign("malicious", "engines_object", {"malware.malicious_count": _within(3, MOST)}),
    Sign("suspicious", "some_abuse_reported", {"threat.abuse_score": _within(25, 74.99)}),
    Sign("suspicious", "an_engine_objects", {"malware.malicious_count": _within(1, 2)}),
    Sign("suspicious", "engines_are_wary", {"malware.suspicious_count": _within(1, MOST)}),
    Sign("suspicious", "suspicious_scanner", {"threat.classification": _is("suspicious")}),
    Sign("suspicious", "tor_exit", {"security.is_tor": _true}),
    Sign("suspicious", "open_proxy", {"security.is_proxy": _true}),
    Sign("suspicious", "vpn_exit", {"security.is_vpn": _true}),
    Sign("clean", "little_abuse_reported", {"threat.abuse_score": _within(0, 24.99)}),
    Sign("clean", "no_engine_objects", {"malware.malicious_count": _within(0, 0)}),
    Sign("clean", "known_service", {"threat.is_known_service": _true}),
    Sign("clean", "benign_scanner", {"threat.classification": _is("benign")}),
)
DOMAIN = (
    Sign("malicious", "listed_as_malicious", {"threat.malicious": _true}),
    Sign("suspicious", "listed_as_threat", {"threat.categories": _any}),
    Sign("suspicious", "young_domain", {"whois.created": _young}),
    Sign("clean", "not_malicious", {"threat.malicious": _false}),
)
EMAIL = (
    Sign("suspicious", "disposable_address", {"is_disposable": _true}),
    Sign("suspicious", "takes_no_mail", {"validity": _is("invalid")}),
    Sign("suspicious", "infected_computer", {"breach.services": _has(INFOSTEALER)}),
    Sign("clean", "takes_mail", {"validity": _is("valid"), "is_disposable": _false}),
)


def judge(
    signs: tuple[Sign, ...],
    fields: Mapping[str, Any],
    sources: Mapping[str, list[str]],
    told: Mapping[str, Mapping[str, Any]],
    moment: datetime,
    *,
    complete: bool,
) -> dict[str, Any]:
    """Judge by the signs; returns `{level, reasons: [{code, source}]}`.

    Args:
        signs: of the kind.
        fields: path → value, where it is known.
        sources: path → the sources that the value is from.
        told: source → what it says itself: of a list, a reason names those whose part it is.
        moment: of the answer.
        complete: every source that could show one of the signs has answered.
    """
    seen = [sign for sign in signs if sign.holds(fields, moment)]
    for level in _WORST_FIRST:
        found = [sign for sign in seen if sign.level == level]
        if found and (level != "clean" or complete):
            return {
                "level": level,
                "reasons": [one for sign in found for one in _reasons(sign, sources, told, moment)],
            }
    return {"level": "unknown", "reasons": []}


def _reasons(
    sign: Sign, sources: Mapping[str, list[str]], told: Mapping[str, Mapping[str, Any]], moment: datetime
) -> list[dict[str, str]]:
    path, test = next(iter(sign.tests.items()))
    return [
        {"code": sign.code, "source": source}
        for source in sources.get(path, [])
        if path not in told.get(source, {}) or test(told[source][path], moment)
    ]
