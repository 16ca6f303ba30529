"""All fields are tracked: what differs by more than its tolerance is a change, and only noise is not."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.monitors.comparison import value_at
from models.monitors.defaults import DEFAULTS
from models.monitors.forms import ComparisonRule
from models.monitors.snapshots import dump, load
from models.monitors.steadiness import replace_held
from models.monitors.tolerances import effective_tolerances, without_defaults
from providers.sources.kind import Kind
from tests.monitors.monitored import Monitored, changes
from tests.monitors.worlds import KINDS, MOMENT, answer, exact_watch, shuffled, value, world

SCORE = "threat.abuse_score"
FILLED = sorted(
    {
        (name, source.spec.name, path)
        for name, kind in KINDS.items()
        for source in kind.sources
        for path in source.fields
    }
)


def test_an_abuse_score_that_rises_from_76_to_99_is_a_change_by_default() -> None:
    found = changes("ip", {"abuseipdb": {SCORE: 76}}, {"abuseipdb": {SCORE: 99}})
    assert found is not None
    assert found[SCORE] == {"old": 76, "new": 99}


@pytest.mark.parametrize(
    ("kind", "source", "path", "old", "near", "far"),
    [
        ("ip", "abuseipdb", SCORE, 76, 86, 87),
        ("ip", "abuseipdb", "threat.total_reports", 100, 110, 111),
        ("ip", "abuseipdb", "threat.distinct_users", 20, 15, 14),
        ("ip", "abuseipdb", "threat.last_reported_at",
         "2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z", "2026-01-31T00:00:01Z"),
        ("ip", "greynoise", "threat.last_seen", "2026-01-01", "2026-01-31", "2026-02-01"),
        ("ip", "virustotal", "malware.malicious_count", 0, 1, 2),
        ("ip", "virustotal", "malware.harmless_count", 60, 70, 71),
        ("ip", "virustotal", "malware.reputation", -1, 9, 10),
        ("ip", "dbip", "location.latitude", 52.5, 53.0, 53.1),
        ("phone", "abstractphone", "validation.minimum_age", 10, 375, 376),
        ("domain", "dns", "dns.soa", "a. b. 1 7200 900", "a. b. 2 7200 900", "a. b. 2 7201 900"),
        ("domain", "tls", "ssl.issuer", "Let's Encrypt R12", "Let's Encrypt R13", "Google Trust WE1"),
    ],
)  # fmt: skip
def test_a_field_moves_within_its_default_tolerance_and_with_0_not_at_all(
    kind: str, source: str, path: str, old: Any, near: Any, far: Any
) -> None:
    def told(new: Any, **chosen: Any) -> Any:
        return (changes(kind, {source: {path: old}}, {source: {path: new}}, **chosen) or {}).get(path)

    assert told(near) is None
    assert told(far) == {"old": old, "new": far}
    assert told(near, tolerance={path: 0}) == {"old": old, "new": near}


@pytest.mark.parametrize(("kind", "source", "path"), FILLED)
def test_every_field_that_a_source_fills_is_tracked_by_default(kind: str, source: str, path: str) -> None:
    chance = random.Random(path)
    for _ in range(100):
        old, new = (far(value(KINDS[kind], path, chance)) for _ in range(2))
        monitored = Monitored(kind)
        monitored.run({source: {path: old}})
        before = value_at(monitored.answer(), path)
        found = monitored.run({source: {path: new}}).changes or {}
        if beyond(monitored.watch[path], before, value_at(monitored.answer(), path)):
            assert path in found
            return
    pytest.fail("no two values of the field differ beyond its tolerance")


def far(found: Any) -> Any:
    """The same with numbers and texts so large that others are beyond all tolerances."""
    if isinstance(found, bool) or found is None:
        return found
    if isinstance(found, (int, float)):
        return found * 1000
    if isinstance(found, str):
        return found if found.startswith("2026") else " ".join(f"{found}{number}" for number in range(50))
    if isinstance(found, list):
        return [far(item) for item in found]
    return {name: far(part) for name, part in found.items()}


def beyond(form: ComparisonRule, old: Any, new: Any) -> bool:
    """Whether two values differ by more than the tolerance of their field, worked out without its code."""
    if form.get_form(old) == form.get_form(new):
        return False
    numbers = [one for one in (old, new) if isinstance(one, (int, float)) and not isinstance(one, bool)]
    if len(numbers) == 2:
        return abs(numbers[0] - numbers[1]) > form.tolerance
    if isinstance(old, str) and isinstance(new, str) and not form.is_member:
        words = set(old.casefold().split()) ^ set(new.casefold().split())
        return not form.tolerance or len(words) > 2 * form.tolerance
    # Objects whose members are all the same but for those with a tolerance may be near each other.
    return not form.tolerances or form_without(form).get_form(old) != form_without(form).get_form(new)


def form_without(form: ComparisonRule) -> ComparisonRule:
    members = {name: fold for name, fold in form.members.items() if name not in form.tolerances}
    return ComparisonRule(form.fold, members, form.key)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(st.integers(0, 2**32).map(random.Random))
def test_of_any_two_answers_every_field_that_differs_beyond_its_tolerance_is_told(
    kind: Kind, chance: random.Random
) -> None:
    old, new = world(kind, chance), world(kind, chance)
    monitored = Monitored(kind.name)
    monitored.run(old)
    found = monitored.run(shuffled(new, chance))
    told = {*(found.changes or {}), *(path for path, one in found.details.items() if "rotating" in one)}
    one, other = answer(kind, old), answer(kind, new)
    if "verdict" in other:  # it rests on what has moved by more than its tolerance
        assert monitored.last
        other["verdict"] = answer(kind, replace_held(new, monitored.last.held))["verdict"]
    differ = {
        path
        for path, form in monitored.watch.items()
        if beyond(form, value_at(one, path), value_at(other, path))
    }
    assert differ <= told
    assert all(
        monitored.watch[path].get_form(change["old"]) != monitored.watch[path].get_form(change["new"])
        for path, change in (found.changes or {}).items()
    )


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(st.integers(0, 2**32).map(random.Random))
def test_with_tolerances_of_0_every_difference_is_a_change(kind: Kind, chance: random.Random) -> None:
    old, new = world(kind, chance), world(kind, chance)
    monitored = Monitored(kind.name, tolerance=dict.fromkeys(DEFAULTS[kind.name].tolerances, 0))
    monitored.run(old)
    found = monitored.run(new).changes or {}
    one, other = answer(kind, old), answer(kind, new)
    assert found.keys() == {
        path
        for path, form in exact_watch(kind).items()
        if form.get_form(value_at(one, path)) != form.get_form(value_at(other, path))
    }


def test_small_moves_of_a_text_add_up_since_the_text_last_told() -> None:
    monitored = Monitored("domain")
    texts = ["a. b. 1 7200 900", "a. b. 2 7200 900", "a. b. 3 7200 800", "a. b. 4 7200 800"]
    found = [monitored.run({"dns": {"dns.soa": text}}).changes for text in texts]
    assert found == [None, None, {"dns.soa": {"old": texts[0], "new": texts[2]}}, None]


def test_small_moves_of_a_member_add_up_since_the_list_last_told() -> None:
    def mention(seen: str) -> dict[str, Any]:
        return {"results": [{"source": "intelx", "title": "paste", "domain": None, "crawl_date": seen}]}

    monitored = Monitored("darkweb", tracked=["results.crawl_date"])
    days = ("2026-01-01", "2026-01-20", "2026-02-10", "2026-02-20")
    found = [monitored.run({"intelx": mention(f"{day}T00:00:00Z")}).details for day in days]
    told = [one.get("results", {}).get("changed", []) != [] for one in found]
    assert told == [False, False, True, False]
    assert found[2]["results"]["changed"][0]["old"]["crawl_date"] == "2026-01-01T00:00:00Z"


def test_a_picture_at_another_server_is_the_same_and_another_picture_is_a_change() -> None:
    urls = [
        "https://0.example.com/a.png?s=1",
        "https://1.example.com/a.png?s=2",
        "https://0.example.com/b.png",
    ]
    found = [changes("email", {"gravatar": {"photo": urls[0]}}, {"gravatar": {"photo": url}}) for url in urls]
    assert found == [None, None, {"photo": {"old": urls[0], "new": urls[2]}}]


class TestRotating:
    """Addresses that come and go among known ones."""

    PATH = "dns.a"

    def told(self, *sets: str, path: str = PATH, **settings: Any) -> list[str]:
        """Return what is told of each set of members: `changed`, `rotating`, or nothing."""
        monitored = Monitored("domain", tracked=[path], **settings)
        source = "dns" if path == "dns.a" else "hosting"
        told: list[str] = []
        for members in sets:
            said = members or None if path != "dns.a" else [*members]
            found = monitored.run({source: {} if said is None else {path: said}})
            told.append(
                "changed"
                if found.changes
                else "rotating"
                if "rotating" in found.details.get(path, {})
                else ""
            )
        return told

    def test_a_member_that_was_never_seen_is_a_change(self) -> None:
        assert self.told("ab", "cd", "ce") == ["", "changed", "changed"]

    def test_a_set_that_goes_round_among_known_members_is_told_once(self) -> None:
        assert self.told("ab", "cd", "ab", "cd", "ac", "a") == ["", "changed", "rotating", "", "", ""]

    def test_a_new_member_is_a_change_also_of_a_set_that_is_known_to_rotate(self) -> None:
        assert self.told("ab", "cd", "ab", "ax", "cd") == ["", "changed", "rotating", "changed", ""]

    def test_a_set_that_only_loses_members_has_changed(self) -> None:
        assert self.told("abc", "ab", "a") == ["", "changed", "changed"]

    def test_a_set_that_becomes_empty_has_changed_and_so_has_one_that_is_not_any_more(self) -> None:
        assert self.told("ab", "cd", "ab", "", "ab")[3:] == ["changed", "changed"]

    def test_so_many_members_are_remembered_as_the_tolerance_says(self) -> None:
        assert self.told("a", "b", "a", tolerance={self.PATH: 2})[2] == "rotating"
        assert self.told("a", "b", "c", "a", tolerance={self.PATH: 2})[3] == "changed"
        assert self.told("a", "b", "a", tolerance={self.PATH: 0})[2] == "changed"

    def test_a_text_that_is_one_member_of_a_set_rotates_too(self) -> None:
        assert self.told("a", "b", "a", "b", path="hosting.ip") == ["", "changed", "rotating", ""]

    def test_any_array_of_texts_can_be_told_to_rotate(self) -> None:
        runs = [{"dns": {"dns.txt": [word]}} for word in ("a", "b", "a")]
        assert changes("domain", *runs) == {"dns.txt": {"old": ["b"], "new": ["a"]}}
        assert changes("domain", *runs, tolerance={"dns.txt": 5}) is None

    def test_what_is_told_has_the_known_members_and_since_when(self) -> None:
        monitored = Monitored("domain")
        for address in ("192.0.2.1", "192.0.2.2"):
            monitored.run({"dns": {self.PATH: [address]}})
        found = monitored.run({"dns": {self.PATH: ["192.0.2.1"]}})
        assert found.changes is None
        detail = found.details[self.PATH]
        assert detail["rotating"] == ["192.0.2.2", "192.0.2.1"]
        assert (detail["added"], detail["removed"]) == (["192.0.2.1"], ["192.0.2.2"])
        assert detail["sources"] == ["dns"]
        assert detail["since"]["by"] > detail["since"]["after"] > MOMENT

    @given(st.lists(st.sets(st.sampled_from("abcdef")).map(sorted), min_size=1, max_size=20))
    def test_a_set_is_silent_only_among_members_that_were_told_before(self, sets: list[list[str]]) -> None:
        told, seen = self.told(*("".join(one) for one in sets)), set(sets[0])
        for number in range(1, len(sets)):
            before, now = set(sets[number - 1]), set(sets[number])
            if now - seen or bool(now) != bool(before):
                assert told[number] == "changed"
            elif now != before and not told[number]:
                assert "rotating" in told[:number]
            seen |= now


class TestBaselinesFromBefore:
    """What an earlier release has stored of a target, when fewer fields counted by default."""

    def stored(self, said: dict[str, dict[str, Any]]) -> bytes:
        monitored = Monitored("ip")
        monitored.run(said)
        assert monitored.last
        parts = orjson.loads(dump(monitored.last))
        del parts["rotations"]
        return orjson.dumps(parts)

    def test_the_same_answer_is_no_change_of_fields_that_count_now(self) -> None:
        said = {
            "abuseipdb": {SCORE: 76, "threat.last_reported_at": "2026-11-20"},
            "dbip": {"location.latitude": 1.5},
        }
        monitored = Monitored("ip")
        monitored.last = load(self.stored(said))
        assert monitored.run(said).changes is None

    def test_a_field_that_was_never_heard_has_its_baseline_first(self) -> None:
        monitored = Monitored("ip")
        monitored.last = load(self.stored({"dbip": {"location.city": "Berlin"}}))
        said = {"dbip": {"location.city": "Berlin"}, "abuseipdb": {SCORE: 99}}
        assert monitored.run(said).changes is None
        assert monitored.run(said | {"abuseipdb": {SCORE: 10}}).changes


@pytest.mark.parametrize("kind", KINDS)
def test_effective_tolerances_that_are_sent_back_are_no_choice(kind: str) -> None:
    shown = effective_tolerances(kind, {"x": 1})
    assert shown.keys() == DEFAULTS[kind].tolerances.keys() | {"x"}
    assert without_defaults(kind, shown) == {"x": 1}
    assert without_defaults(kind, dict.fromkeys(shown, 0)) == dict.fromkeys(shown, 0)


def test_a_zero_that_not_everyone_has_confirmed_is_no_baseline_of_those_who_were_silent() -> None:
    nothing, amber = {"breach.services": list[str]()}, {"breach.services": ["Amber"]}
    monitored = Monitored("email")
    monitored.run({"xposedornot": nothing})
    assert monitored.run({"xposedornot": nothing, "hibp": amber}).changes is None
    assert monitored.answer()["breach"]["count"] == 1
    assert monitored.run({"xposedornot": nothing}).changes is None
    assert monitored.answer()["breach"]["count"] == 1
    found = monitored.run({"xposedornot": nothing, "hibp": {"breach.services": ["Amber", "Basalt"]}}).changes
    assert found is not None
    assert found["breach.count"] == {"old": 1, "new": 2}
