"""One run, driven without servers: random workflows, outcomes in any order, crashes between writes."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from engine.calls import JSONObject
from tests.engine.definitions import definitions, payloads, same
from tests.engine.world import World

_SETTINGS: dict[str, Any] = {
    "deadline": None, "phases": (Phase.explicit, Phase.reuse, Phase.generate)
}  # fmt: skip


def driven(definition: JSONObject, rows: list[JSONObject], seed: int, **trouble: float) -> list[Any]:
    found: list[Any] = []
    for row in rows:
        world = World(definition, row, random.Random(seed), **trouble)
        found.append(world.outcome(world.run()))
    return found


@settings(max_examples=150, **_SETTINGS)
@given(definitions(), st.integers(0, 2**32))
def test_a_run_comes_to_the_same_whatever_crashes_between_its_writes(
    definition: JSONObject, seed: int
) -> None:
    """Only how often something is called may differ: never less than without a crash."""
    rows = payloads(10)
    calm = driven(definition, rows, seed)
    troubled = driven(definition, rows, seed, crashes=0.1, crowded=0.3)
    same(definition, [one[:2] for one in troubled], [one[:2] for one in calm])
    for (*_, more), (*_, calls) in zip(troubled, calm, strict=True):
        assert all(more[key] >= times for key, times in calls.items())


@settings(max_examples=80, **_SETTINGS)
@given(definitions(), st.integers(0, 2**32))
def test_a_run_comes_to_the_same_in_a_process_without_room_for_its_values(
    definition: JSONObject, seed: int
) -> None:
    rows = payloads(5)
    alone, crowded = driven(definition, rows, seed), driven(definition, rows, seed, crowded=1.0)
    same(definition, [one[:2] for one in crowded], [one[:2] for one in alone])


@settings(max_examples=200, **_SETTINGS)
@given(definitions(all_may_fail=True), st.integers(0, 2**32))
def test_every_run_ends_with_a_record_of_all_that_was_under_way(definition: JSONObject, seed: int) -> None:
    for row in payloads(5):
        world = World(definition, row, random.Random(seed), crashes=0.05, cancels=0.05)
        ended = world.run()
        assert ended.status in ("completed", "failed", "cancelled")
        assert world.asked <= {*world.records}
        for step in definition["steps"]:
            items = world.items.get(step["id"], {}).values()
            if step.get("on_error") != "continue" and any(one.status == "failed" for one in items):
                assert world.records[step["id"]].status in ("failed", "cancelled")
