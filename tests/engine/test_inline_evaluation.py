"""What a run evaluates by itself is counted; what is more becomes a call."""

from __future__ import annotations

import pytest

from engine.calls import AttemptResult, JSONObject
from engine.driver import Driver
from engine.inline import INLINE_NODES
from engine.plan import Plan
from engine.state import RunInput
from language.definition import Definition
from models.identifiers import new_id
from tests.automations.engine import transform
from tests.engine.world import START

CHEAP, DEAR = "trigger[0].n", "trigger[].n"
ITEMS = [{"n": n} for n in range(INLINE_NODES)]


def driver(*expressions: str) -> Driver:
    return run_of(*(transform(f"s{n}", expression) for n, expression in enumerate(expressions)))


def run_of(*steps: JSONObject) -> Driver:
    definition = Definition.model_validate({"name": "w", "steps": list(steps)})
    return Driver(Plan(definition), RunInput(new_id(), START, trigger=ITEMS), {"name": "w"})


@pytest.mark.parametrize("steps", [1, 3, 7])
def test_the_steps_of_a_run_add_up(steps: int) -> None:
    one, many = driver(CHEAP), driver(*[CHEAP] * steps)
    for run in (one, many):
        run.advance(START)
        assert run.ended is not None
    assert 0 < one.nodes < INLINE_NODES / 10
    assert many.nodes == steps * one.nodes


def test_what_is_too_much_is_counted_as_far_as_it_went_and_becomes_a_call() -> None:
    run = driver(CHEAP, DEAR)
    [call] = run.advance(START)
    assert (call.kind, call.step.id) == ("evaluate", "s1")
    assert INLINE_NODES <= run.nodes < INLINE_NODES * 1.1


def test_each_advance_begins_with_all_it_may_use() -> None:
    run = driver(DEAR, CHEAP)
    [call] = run.advance(START)
    run.take(call, AttemptResult(None, []), START)
    assert run.advance(START) == []
    assert run.ended is not None and run.ended.status == "completed"


HEAVY: dict[str, tuple[JSONObject, str]] = {
    "a transform": ({"type": "transform", "config": {"expression": DEAR}}, "evaluate"),
    "a condition": ({"type": "condition", "config": {"expression": f"length({DEAR}) > `1`"}}, "evaluate"),
    "an array of items": ({"type": "webhook", "config": {"url": "http://h/"}, "for_each": DEAR}, "prepare"),
    "an until": ({"type": "delay", "config": {"until": f"{{{{ length({DEAR}) }}}}"}}, "prepare"),
}


@pytest.mark.parametrize("case", HEAVY)
def test_whatever_is_much_to_evaluate_becomes_a_call(case: str) -> None:
    step, kind = HEAVY[case]
    run = run_of({"id": "heavy", **step})
    assert [call.kind for call in run.advance(START)] == [kind]
