"""Over many runs in which sources fail at random, what has not changed is never told, and what has, once.

The answers are those of the real kinds: what their sources say is merged as in a lookup.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.lookups.lookups import FAILURES
from models.monitors.comparison import Comparison, compare, value_at
from models.monitors.forms import ComparisonRule
from models.monitors.snapshots import Said, Snapshot, carry_over
from providers.lookup.composition import Selection, compose
from providers.lookup.replay import WHOLE, collect_said, filled_up
from providers.lookup.result import NO_DATA, NOT_ASKED, SourceResult, SourceResults
from providers.sources.base import Fields, Source
from providers.sources.kind import Kind
from tests.monitors.worlds import EDITIONS, KINDS, MOMENT, answer, exact_watch, shuffled, value, world

pytestmark = pytest.mark.long

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
RUNS = 3_000
SILENT = [
    *(SourceResult(status) for status in sorted(FAILURES)),
    *(SourceResult("skipped", detail=detail) for detail in (NO_DATA, NOT_ASKED)),
    SourceResult("cached", stale=True),
]


class Target:
    """What is true of a target, what a monitor knows of it, and what it has told so far."""

    def __init__(self, kind: Kind, chance: random.Random) -> None:
        self.kind, self.chance = kind, chance
        self.truth = world(kind, chance)
        self.watch = exact_watch(kind)
        self.last: Snapshot | None = None
        self.found_out = dict(self.truth)
        """What each source said of each field when it last found that out."""
        self.run(self.truth)
        self.told = self.values()

    def values(self) -> dict[str, Any]:
        """The value of every watched field, as all sources together have it now."""
        whole = answer(self.kind, self.truth)
        return {path: value_at(whole, path) for path in self.watch}

    def turn(self) -> None:
        """Let one source say something else of one field."""
        source = self.chance.choice(self.kind.sources)
        path = self.chance.choice(sorted(source.fields))
        words = dict(self.truth[source.spec.name])
        if words.pop(path, None) is None or self.chance.random() < 0.7:
            words[path] = value(self.kind, path, self.chance)
        self.truth[source.spec.name] = words

    def learn(self, heard: Said) -> set[str]:
        """Note what sources have found out; returns those that say something else than they did last."""
        news: set[str] = set()
        for source, words in heard.items():
            last = self.found_out[source]
            unsure = {path: last[path] for path, word in words.items() if word is None and path in last}
            self.found_out[source] = {p: word for p, word in words.items() if word is not None} | unsure
            if self.found_out[source] != last:
                news.add(source)
        return news

    def run(self, heard: Said) -> Comparison:
        new = carry_over(self.last, shuffled(heard, self.chance), MOMENT, EDITIONS)
        found = compare(self.last, new, self.watch, lambda words: answer(self.kind, words))
        self.last = found.snapshot
        return found

    def outcomes(self) -> SourceResults:
        """Return what becomes of the sources this time: now and then nobody answers, often everyone."""
        share = self.chance.choice((0.0, 0.3, 0.7, 1.0))
        return [(source, self.outcome(source, self.chance.random() < share)) for source in self.kind.sources]

    def outcome(self, source: Source, answers: bool) -> SourceResult:
        words = self.truth[source.spec.name]
        if answers and self.chance.random() < 0.7:
            return SourceResult(self.chance.choice(("ok", "cached")) if words else "empty", words)
        if answers:  # but not wholly: of some fields it has something else, or nothing
            unsure = {path for path in source.fields if self.chance.random() < 0.5}
            parts = {path: value(self.kind, path, self.chance) for path in unsure if path in words}
            return SourceResult("ok", words | parts, unsure=frozenset(unsure))
        silent = self.chance.choice(SILENT)
        if silent.stale:  # what it said some time ago may be anything
            path = self.chance.choice(sorted(source.fields))
            return silent._replace(fields={path: value(self.kind, path, self.chance)})
        return silent

    def heard(self) -> Said:
        return collect_said(self.outcomes())


def same(form: ComparisonRule, one: Any, other: Any) -> bool:
    return form.get_form(one) == form.get_form(other)


def false_and_missed(target: Target, turns: int) -> tuple[int, int, int]:
    """Make one run: how many changes it told, how many of these are false, and how many are missing."""
    for _ in range(turns):
        target.turn()
    heard = target.heard()
    found = target.run(heard)
    changes = found.changes or {}
    false = 0 if target.learn(heard) else len(changes)
    for path, change in changes.items():
        form = target.watch[path]
        # It goes on from what was told last, to something else, and those who say so have answered now.
        false += not same(form, change["old"], target.told[path]) or same(form, change["old"], change["new"])
        false += not set(found.details[path]["sources"]) <= heard.keys()
        target.told[path] = change["new"]
    missed = 0
    if target.found_out == target.truth:
        now = target.values()
        missed = sum(not same(form, target.told[path], now[path]) for path, form in target.watch.items())
    return len(changes), false, missed


def test_thousands_of_runs_tell_no_false_change_and_miss_no_true_one() -> None:
    chance = random.Random(20261122)
    told = false = missed = 0
    for kind in KINDS.values():
        target = Target(kind, chance)
        for _ in range(RUNS // len(KINDS) + 1):
            one = false_and_missed(target, chance.choice((0, 0, 1, 3)))
            told, false, missed = told + one[0], false + one[1], missed + one[2]
    assert (false, missed) == (0, 0)
    assert told > RUNS / 2


@each_kind
@given(st.integers(0, 2**32).map(random.Random))
def test_a_changed_truth_is_told_once_whoever_is_silent_meanwhile(kind: Kind, chance: random.Random) -> None:
    target = Target(kind, chance)
    for _ in range(chance.randrange(30)):
        assert false_and_missed(target, chance.choice((0, 1)))[1:] == (0, 0)


@each_kind
@given(st.integers(0, 2**32).map(random.Random))
def test_the_same_truth_is_no_change_whoever_is_silent(kind: Kind, chance: random.Random) -> None:
    target = Target(kind, chance)
    for _ in range(10):
        assert target.run(target.heard()).changes is None


@each_kind
@given(st.integers(0, 2**32).map(random.Random))
def test_only_what_has_been_heard_before_can_be_a_change(kind: Kind, chance: random.Random) -> None:
    target = Target(kind, chance)
    target.last = None
    known: set[str] = set()
    for _ in range(6):
        heard = {source: words for source, words in target.truth.items() if chance.random() < 0.4}
        found = target.run(heard)
        assert (found.changes is not None) <= bool(known & target.learn(heard))
        assert all(set(one["sources"]) <= known & heard.keys() for one in found.details.values())
        known |= heard.keys()
        target.turn()


@each_kind
@given(st.integers(0, 2**32).map(random.Random))
def test_what_is_compared_is_the_answer_in_which_silent_sources_repeat_themselves(
    kind: Kind, chance: random.Random
) -> None:
    target = Target(kind, chance)
    assert target.last
    target.turn()
    now = target.outcomes()
    carried = carry_over(target.last, collect_said(now), MOMENT, EDITIONS)
    query = kind.normalise(kind.example, "")
    shown = compose(kind, query, filled_up(now, target.last.said), MOMENT, Selection(limit=WHOLE))
    assert shown.data == answer(kind, carried.said)


@each_kind
@given(st.integers(0, 2**32).map(random.Random))
def test_the_order_of_arrays_never_matters(kind: Kind, chance: random.Random) -> None:
    old, new = world(kind, chance), world(kind, chance)
    everything = exact_watch(kind)

    def changes(one: dict[str, Fields], other: dict[str, Fields]) -> dict[str, Any]:
        before = carry_over(None, one, MOMENT, EDITIONS)
        after = carry_over(before, other, MOMENT, EDITIONS)
        return compare(before, after, everything, lambda words: answer(kind, words)).details

    def counts(details: dict[str, Any]) -> dict[str, Any]:
        parts = ("added", "removed", "changed")
        return {path: [len(one.get(part, ())) for part in parts] for path, one in details.items()}

    told = changes(old, new)
    other = changes(shuffled(old, chance), shuffled(new, chance))
    assert counts(told) == counts(other)
    assert {path: one["sources"] for path, one in told.items()} == {
        path: one["sources"] for path, one in other.items()
    }
