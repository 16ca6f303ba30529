"""A step sees the steps that it waits for, and no others: done or not, those are null to it."""

from __future__ import annotations

from typing import Any

import pytest

from engine.calls import JSONObject
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from language.definition import Definition
from language.records import DoneStep
from models.identifiers import new_id
from tests.engine.world import START

FIRST: JSONObject = {"id": "first", "type": "transform", "config": {"expression": "'one'"}}
THROUGH: JSONObject = {"id": "through", "type": "transform", "config": {"expression": "'two'"}}
READS: JSONObject = {
    "first": "one",
    "steps.first.output": "one",
    "steps.first.status": "completed",
    "keys(steps) | sort(@)": ["first", "through"],
    "keys(@) | contains(@, 'first')": True,
}
UNSEEN: JSONObject = {"keys(steps) | sort(@)": [], "keys(@) | contains(@, 'first')": False}


def output(expression: str, needs: list[str], *done: DoneStep) -> Any:
    """The output of a step with this expression, beside or after two others."""
    last = {"id": "last", "type": "transform", "config": {"expression": expression}, "needs": needs}
    plan = Plan(Definition.model_validate({"name": "test", "steps": [FIRST, THROUGH, last]}))
    driver = Driver(plan, RunInput(new_id(), START, trigger=None, request=None, done=done), {})
    driver.advance(START)
    [record] = [one for one in driver.take_records() if one.step_id == "last"]
    return record.output


@pytest.mark.parametrize(("expression", "expected"), READS.items())
def test_it_sees_what_it_waits_for_directly_or_through_others(expression: str, expected: Any) -> None:
    assert output(expression, ["through"]) == expected


@pytest.mark.parametrize("expression", READS)
@pytest.mark.parametrize("is_continued", [False, True])
def test_it_does_not_see_what_is_done_beside_it(expression: str, is_continued: bool) -> None:
    done = [DoneStep(step_id="first", status="completed", output="one")] if is_continued else []
    assert output(expression, [], *done) == UNSEEN.get(expression)
