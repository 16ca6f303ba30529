"""Snapshots that are stored once while nothing changes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.monitors.comparison import compare
from models.monitors.rotations import Rotation
from models.monitors.snapshots import Said, Snapshot, carry_over, content_hash, dump, load
from providers.sources.kind import Kind
from tests.monitors.worlds import EDITIONS, KINDS, MOMENT, answer, exact_watch, shuffled, value, world


def hash_of(kind: Kind, words: dict[str, Any]) -> bytes:
    return content_hash(words, exact_watch(kind))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(st.integers(0, 2**32).map(random.Random))
def test_the_hash_is_that_of_what_is_said_in_any_order(kind: Kind, chance: random.Random) -> None:
    words = world(kind, chance)
    other = dict(reversed(shuffled(words, chance).items()))
    assert hash_of(kind, words) == hash_of(kind, other)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(st.integers(0, 2**32).map(random.Random))
def test_two_hashes_of_what_one_source_fills_are_equal_if_and_only_if_nothing_has_changed(
    kind: Kind, chance: random.Random
) -> None:
    source = chance.choice(kind.sources)
    path = chance.choice(sorted(source.fields))
    old, new = ({source.spec.name: {path: value(kind, path, chance)}} for _ in range(2))
    everything = exact_watch(kind)
    before = carry_over(None, old, MOMENT, EDITIONS)
    after = carry_over(before, new, MOMENT, EDITIONS)
    found = compare(before, after, everything, lambda words: answer(kind, words))
    changed = found.changes is not None and path in found.changes
    assert changed == (hash_of(kind, old) != hash_of(kind, new))


def test_numbers_are_hashed_by_value_and_nothing_known_as_nothing() -> None:
    kind = KINDS["company"]
    one: Said = {"wikidata": {"profile.employee_count": 10, "profile.sic_codes": []}}
    two = {"wikidata": {"profile.employee_count": 10.0}}
    assert hash_of(kind, one) == hash_of(kind, two)


def test_what_a_source_could_not_find_out_is_not_hashed_as_nothing() -> None:
    kind = KINDS["company"]
    assert hash_of(kind, {"wikidata": {"profile.industry": None}}) != hash_of(kind, {"wikidata": {}})


def test_a_source_that_has_said_nothing_is_not_one_that_was_never_heard() -> None:
    kind = KINDS["company"]
    assert hash_of(kind, {"wikidata": {}}) != hash_of(kind, {})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(st.integers(0, 2**32).map(random.Random))
def test_a_stored_snapshot_is_read_as_it_was_written(kind: Kind, chance: random.Random) -> None:
    words = world(kind, chance)
    heard, rotations = dict.fromkeys(words, MOMENT), {"dns.a": Rotation(["192.0.2.1"], told=True)}
    snapshot = Snapshot(
        words, heard, {"age": 10.5}, dict.fromkeys(words, "1"), dict.fromkeys(words, heard), rotations
    )
    assert load(dump(snapshot)) == snapshot
