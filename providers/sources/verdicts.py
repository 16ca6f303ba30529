"""The verdict on a target: a level and its reasons, weighed from all that the sources report. Pure.

Each sign that applies has a weight in points, positive if it speaks against the target and negative if it
speaks for it. From 80 points on a target is malicious, from 30 on suspicious, below 0 clean. In between there
is too little to judge by. Four sorts of signs are added up differently:

- the use of a target (Tor, a VPN), which counts once, by the greatest weight, and alone never makes it
  malicious;
- accusations;
- a check that found nothing, which weighs against accusations, but not against a use;
- the identity of the target, which weighs against everything.

Nothing is called clean while a silent source could still make it suspicious.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as made
from datetime import date, datetime
from typing import Any, Literal

Level = Literal["clean", "suspicious", "malicious", "unknown"]
Sort = Literal["use", "accusation", "absence", "identity"]
MALICIOUS, SUSPICIOUS = 80, 30
_YOUNG_DAYS = 30
_OLD_REPORT_DAYS, _OLD_SCAN_DAYS = 30, 90
# So few people or reports may be one person's mistake.
_FEW = 2
# More reports than this are many, whatever the score.
_MANY_REPORTS = 20
COMPUTED = "computed"
"""The source name of values that were computed here."""


@dataclass(frozen=True)
class Facts:
    """The known fields, path → value, and the moment of the answer."""

    fields: Mapping[str, Any]
    moment: datetime

    def number(self, path: str) -> float | None:
        """Return the number at the path, or None."""
        return self.fields.get(path)

    def days_since(self, path: str) -> int | None:
        """Return the days since the date at the path; None if it is unknown or in the future."""
        try:
            day = date.fromisoformat(str(self.fields[path])[:10])
        except (KeyError, ValueError):
            return None
        days = (self.moment.date() - day).days
        return days if days >= 0 else None


Test = Callable[[Any, Facts], bool]
"""The value of a field, and all facts → whether the sign applies."""


@dataclass(frozen=True)
class Sign:
    """A sign that a target is good or bad.

    Attributes:
        code: its identifier.
        weight: in points, see the module.
        field: the field that shows it. Reasons name the sources of this field.
        test: whether it applies, where the field is known.
        sort: how its weight is added up.
        reads: other fields that the test reads.
        by_source: source → the weight if that source reports it; 0 ignores the source for this sign.
    """

    code: str
    weight: int
    field: str
    test: Test
    sort: Sort = "accusation"
    reads: tuple[str, ...] = ()
    by_source: Mapping[str, int] = made(default_factory=dict[str, int])

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that it reads."""
        return (self.field, *self.reads)

    def holds(self, facts: Facts) -> bool:
        """Return whether the sign applies."""
        return self.field in facts.fields and self.test(facts.fields[self.field], facts)

    def weight_of(self, source: str) -> int:
        """Return the weight of the sign if this source reports it."""
        return self.by_source.get(source, self.weight)


@dataclass(frozen=True)
class Reason:
    """A sign that applies, with the source that reports it."""

    sign: Sign
    source: str
    weight: int

    def to_answer(self) -> dict[str, Any]:
        """Return the reason in the form of the answer."""
        return {
            "code": self.sign.code,
            "source": self.source,
            "field": self.sign.field,
            "weight": self.weight,
        }


def _true(value: Any, facts: Facts) -> bool:
    return value is True


def _false(value: Any, facts: Facts) -> bool:
    return value is False


def _is(*wanted: str) -> Test:
    return lambda value, facts: value in wanted


def _test_range(least: float, most: float) -> Test:
    return lambda value, facts: least <= value <= most


def _has(name: str) -> Test:
    return lambda value, facts: name in value


def _any(value: Any, facts: Facts) -> bool:
    return bool(value)


def _young(path: str) -> Test:
    def test(value: Any, facts: Facts) -> bool:
        days = facts.days_since(path)
        return days is not None and days < _YOUNG_DAYS

    return test


def _engines(block: str) -> tuple[Sign, ...]:
    """Return the signs from scanning engines: by the count and the share of engines that object."""
    objecting, wary, harmless, undetected = (
        f"{block}.{name}_count" for name in ("malicious", "suspicious", "harmless", "undetected")
    )
    reads = (wary, harmless, undetected)

    def share(least: float, below: float) -> Test:
        def test(value: Any, facts: Facts) -> bool:
            looked = value + sum(facts.number(path) or 0 for path in reads)
            return value > _FEW and least <= value / looked < below

        return test

    def none(value: Any, facts: Facts) -> bool:
        return value == 0 and not facts.number(wary)

    def mostly(value: Any, facts: Facts) -> bool:
        objects = facts.number(objecting) or 0
        return objects > 0 and value >= 25 * (objects + (facts.number(wary) or 0))

    return (
        Sign("many_engines_object", 80, objecting, share(0.1, MOST), reads=reads),
        Sign("engines_object", 40, objecting, share(0.0, 0.1), reads=reads),
        Sign("an_engine_objects", 15, objecting, _test_range(1, _FEW)),
        Sign("engines_are_wary", 30, wary, _test_range(_FEW + 1, MOST)),
        Sign("an_engine_is_wary", 10, wary, _test_range(1, _FEW)),
        Sign("no_engine_objects", -30, objecting, none, "absence", (wary,)),
        Sign("most_engines_find_nothing", -30, harmless, mostly, "absence", (objecting, wary)),
    )


_SCORE, _REPORTS, _REPORTERS = "threat.abuse_score", "threat.total_reports", "threat.distinct_users"
_REPORTED, _WHITELISTED = "threat.last_reported_at", "threat.is_whitelisted"


def _reports(least: float, most: float, code: str, weight: int) -> Iterator[Sign]:
    """Yield the signs of abuse reports with such a score: half the weight if they are few or old."""

    def old(facts: Facts) -> bool:
        return (facts.days_since(_REPORTED) or 0) > _OLD_REPORT_DAYS

    def few(facts: Facts) -> bool:
        counts = (facts.number(path) for path in (_REPORTS, _REPORTERS))
        return any(count is not None and count <= _FEW for count in counts)

    def test(wanted: Callable[[Facts], bool]) -> Test:
        return lambda value, facts: least <= value <= most and wanted(facts)

    reads = (_REPORTS, _REPORTERS, _REPORTED)
    yield Sign(code, weight, _SCORE, test(lambda facts: not old(facts) and not few(facts)), reads=reads)
    yield Sign(f"{code}_long_ago", weight // 2, _SCORE, test(old), reads=reads)
    by_few = test(lambda facts: few(facts) and not old(facts))
    yield Sign(f"{code}_by_few", weight // 2, _SCORE, by_few, reads=reads)


def _little_reported(value: Any, facts: Facts) -> bool:
    reports = facts.number(_REPORTS)
    return value < 25 and (reports is None or 0 < reports <= _MANY_REPORTS)


def _often_reported(value: Any, facts: Facts) -> bool:
    score = facts.number(_SCORE)
    believed = score is not None and score >= 25
    return value > _MANY_REPORTS and not believed and facts.fields.get(_WHITELISTED) is not True


def _seen_of_late(value: Any, facts: Facts) -> bool:
    return value == "malicious" and (facts.days_since("threat.last_seen") or 0) <= _OLD_SCAN_DAYS


def _seen_long_ago(value: Any, facts: Facts) -> bool:
    return value == "malicious" and not _seen_of_late(value, facts)


MOST = float("inf")
INFOSTEALER = "Infostealer malware"
"""The name under which breaches list a computer that was infected."""
_CLASS = "threat.classification"
_KNOWN = Sign(
    "known_service", -60, "threat.is_known_service", _true, "identity",
    by_source={"wellknown": -200, "wellknowndomain": -200},
)  # fmt: skip

IP = (
    Sign("listed_for_abuse", 80, "security.is_abuse", _true, by_source={"abstractip": 40}),
    *_reports(75, 100, "abuse_reported", 80),
    *_reports(25, 74.99, "some_abuse_reported", 40),
    Sign("often_reported", 10, _REPORTS, _often_reported, reads=(_SCORE, _WHITELISTED)),
    Sign("malicious_scanner", 80, _CLASS, _seen_of_late, reads=("threat.last_seen",)),
    Sign("malicious_scanner_long_ago", 40, _CLASS, _seen_long_ago, reads=("threat.last_seen",)),
    Sign("suspicious_scanner", 40, _CLASS, _is("suspicious")),
    *_engines("malware"),
    Sign("tor_exit", 30, "security.is_tor", _true, "use"),
    Sign("open_proxy", 30, "security.is_proxy", _true, "use"),
    Sign("vpn_exit", 30, "security.is_vpn", _true, "use"),
    Sign("never_reported", -20, _REPORTS, _test_range(0, 0), "absence"),
    Sign("little_abuse_reported", -10, _SCORE, _little_reported, "absence", (_REPORTS,)),
    Sign("whitelisted", -60, _WHITELISTED, _true, "identity"),
    Sign("benign_scanner", -40, _CLASS, _is("benign"), "identity"),
    _KNOWN,
)
# Where the counts of VirusTotal's engines are known, these are weighed, and not the values derived from them.
_COUNTED = {"virustotaldomain": 0}
DOMAIN = (
    Sign("listed_as_malicious", 80, "threat.malicious", _true, by_source=_COUNTED),
    # A domain that ThreatFox lists as a threat was already called malicious by it.
    Sign("listed_as_threat", 40, "threat.categories", _any, by_source=_COUNTED | {"threatfox": 0}),
    *_engines("threat"),
    Sign("young_domain", 30, "whois.created", _young("whois.created"), "use"),
    Sign("not_malicious", -30, "threat.malicious", _false, "absence", by_source=_COUNTED),
    _KNOWN,
)


def _is_lasting(value: Any, facts: Facts) -> bool:
    return value == "valid" and facts.fields.get("is_disposable") is False


EMAIL = (
    Sign("infected_computer", 40, "breach.services", _has(INFOSTEALER), "use"),
    Sign("disposable_address", 30, "is_disposable", _true, "use"),
    Sign("takes_no_mail", 30, "validity", _is("invalid"), "use"),
    Sign("takes_mail", -20, "validity", _is_lasting, "absence", ("is_disposable",)),
)


def judge(
    signs: tuple[Sign, ...],
    fields: Mapping[str, Any],
    sources: Mapping[str, list[str]],
    told: Mapping[str, Mapping[str, Any]],
    moment: datetime,
    *,
    unheard: Collection[str] = (),
) -> dict[str, Any]:
    """Judge the target by the signs; return `{level, reasons: [{code, source, field, weight}]}`.

    The reasons are all that was weighed, the heaviest first.

    Args:
        signs: the signs of the kind.
        fields: path → value, for the known fields.
        sources: path → the sources that the value is from.
        told: source → its own fields: for a list, a reason names the sources of the item.
        moment: the time of the answer.
        unheard: fields that silent sources could fill.
    """
    facts = Facts(fields, moment)
    seen = [sign for sign in signs if sign.holds(facts)]
    reasons = [reason for sign in seen for reason in _reasons(sign, facts, sources, told) if reason.weight]
    reasons.sort(key=lambda reason: (-abs(reason.weight), reason.sign.code, reason.source))
    score = _score(reasons)
    level: Level = "unknown"
    if score >= SUSPICIOUS:
        level = "malicious" if score >= MALICIOUS else "suspicious"
    elif score < 0 and score + _could_come(signs, seen, unheard) < SUSPICIOUS:
        level = "clean"
    return {"level": level, "reasons": [reason.to_answer() for reason in reasons]}


def _score(reasons: list[Reason]) -> int:
    """Add up the weights."""
    by_sort: dict[Sort, list[int]] = {"use": [], "accusation": [], "absence": [], "identity": []}
    for reason in reasons:
        by_sort[reason.sign.sort].append(reason.weight)
    use = max(by_sort["use"], default=0)
    weighed = sum(by_sort["accusation"]) + sum(by_sort["absence"])
    return use + (max(0, weighed) if use else weighed) + sum(by_sort["identity"])


def _could_come(signs: tuple[Sign, ...], seen: Collection[Sign], unheard: Collection[str]) -> int:
    """Return the points that silent sources could add: for each field, its worst sign."""
    worst: dict[str, int] = {}
    for sign in signs:
        if sign.weight > 0 and sign not in seen and sign.field in unheard:
            worst[sign.field] = max(worst.get(sign.field, 0), sign.weight)
    return sum(worst.values())


def _reasons(
    sign: Sign, facts: Facts, sources: Mapping[str, list[str]], told: Mapping[str, Mapping[str, Any]]
) -> Iterator[Reason]:
    for source in sources.get(sign.field) or [COMPUTED]:
        own = told.get(source, {})
        if sign.field not in own or sign.test(own[sign.field], facts):
            yield Reason(sign, source, sign.weight_of(source))
