"""What a run gets never depends on its batch mates: random workflows, in batches of 1, 7 and 64."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from language.definition import Definition
from tests.automations.world import JSONObject, World


@st.composite
def definitions(draw: st.DrawFn, *, all_may_fail: bool = False) -> JSONObject:
    """Workflows of every step type, with branches, needs, retries, items and errors.

    Where steps run side by side none may fail the run: what the others have done by then is a matter of time.
    Unless all may.
    """
    steps: list[JSONObject] = []
    side_by_side = draw(st.booleans())
    total = draw(st.integers(1, 8))
    for index in range(total):
        step: JSONObject = {"id": f"s{index}"}
        needs = [one["id"] for one in steps[-1:]]
        if index and side_by_side and draw(st.booleans()):
            needs = draw(st.lists(st.sampled_from([s["id"] for s in steps]), unique=True, max_size=3))
            step["needs"] = needs
        # It reads what it needs; but what a delay gives is a time, and not the same in every batch.
        readable = [one["id"] for one in steps if one["id"] in needs and one["type"] != "delay"]
        earlier = draw(st.sampled_from(["trigger", *readable]))
        kind = draw(st.sampled_from(["transform", "condition", "webhook", "lookup", "delay", "each"]))
        if kind == "transform":
            step |= {"type": "transform", "config": {"expression": f"[trigger.n, {earlier}]"}}
        elif kind == "condition":
            step |= {"type": "condition", "config": {"expression": f"trigger.n > {draw(st.integers(0, 60))}"}}
        elif kind == "webhook":
            url = f"http://h/{{{{ {earlier}.luck }}}}"
            step |= {"type": "webhook", "config": {"url": url}, "retry": {"max_attempts": 2}}
        elif kind == "lookup":
            step |= {"type": "ip_lookup", "config": {"field": f"{earlier}.ip"}}
        elif kind == "delay":
            step |= {"type": "delay", "config": {"seconds": draw(st.sampled_from([1, 60, 3600]))}}
        else:
            array = draw(st.sampled_from(["trigger.items", "[1, 2]", f"{earlier}.filler", f"[{earlier}]"]))
            step |= {"type": "webhook", "config": {"url": "http://h/{{ item }}"}, "for_each": array}
            step |= {"max_concurrency": draw(st.sampled_from([1, 3, 50]))}
        if (not all_may_fail and (side_by_side or kind == "each")) or draw(st.booleans()):
            step["on_error"] = "continue"
        steps.append(step)
    free: list[str] = [step["id"] for step in steps]
    for index, step in enumerate(steps):
        if step["type"] == "condition" and draw(st.booleans()):
            for branch in ("then", "else"):
                later = [step_id for step_id in free if int(step_id[1:]) > index]
                members = draw(st.lists(st.sampled_from(later), unique=True, max_size=2)) if later else []
                step["config"][branch] = members
                free = [step_id for step_id in free if step_id not in members]
    definition = {"name": "random", "steps": steps}
    Definition.model_validate(definition)
    return definition


def payloads(numbers: int) -> list[JSONObject]:
    return [{"n": n, "ip": "8.8.8.8", "items": list(range(n % 9))} for n in range(numbers)]


def outcomes(
    definition: JSONObject, rows: list[JSONObject], size: int, seed: int, renew: int = 0
) -> list[Any]:
    """What each row comes to in batches of `size`."""
    found: list[Any] = []
    for start in range(0, len(rows), size):
        world = World(definition, random.Random(seed), renew)
        world.run(rows[start : start + size])
        assert world.largest <= 1024 * 1024
        found += [world.outcome(row) for row in rows[start : start + size]]
    return found


def same(definition: JSONObject, found: list[Any], expected: list[Any]) -> None:
    """The outcomes are equal; else say for the first row in what they differ."""
    for one, other in zip(found, expected, strict=True):
        if one != other:
            parts = [(str(a)[:2000], str(b)[:2000]) for a, b in zip(one, other, strict=True) if a != b]
            pytest.fail(f"{definition}: {parts}")


# Without shrinking: that would take minutes, and the first example found says enough.
@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definitions(), st.integers(0, 2**32))
def test_a_run_comes_to_the_same_in_batches_of_1_7_and_64(definition: JSONObject, seed: int) -> None:
    rows = payloads(64)
    alone = outcomes(definition, rows, 1, seed)
    assert all(ending is not None for ending, _, _ in alone)
    same(definition, outcomes(definition, rows, 7, seed), alone)
    same(definition, outcomes(definition, rows, 64, seed), alone)


@settings(max_examples=50, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definitions(), st.integers(0, 2**32), st.integers(1, 40))
def test_a_run_comes_to_the_same_with_a_new_history_half_way(
    definition: JSONObject, seed: int, renew_after: int
) -> None:
    rows = payloads(7)
    same(definition, outcomes(definition, rows, 7, seed, renew_after), outcomes(definition, rows, 1, seed))


@settings(max_examples=200, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(definitions(all_may_fail=True), st.integers(0, 2**32), st.integers(0, 40))
def test_every_run_ends_once_and_with_all_that_was_under_way(
    definition: JSONObject, seed: int, renew_after: int
) -> None:
    """Whatever is cancelled, lost or fails: the world looks at each moment."""
    world = World(definition, random.Random(seed), renew_after, trouble=0.05)
    rows = payloads(7)
    world.run(rows)
    assert len(world.endings) == len(rows)
