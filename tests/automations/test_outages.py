"""Sources that are down for an hour: how often a step asks, when, and what becomes of its run.

In a world without servers, time passes without anybody waiting.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from engine.calls import AttemptResult, Call, failed_attempt
from engine.records import RunEnd
from language.records import StepError
from tests.automations.engine import transform
from tests.engine.world import START, World

HOUR = timedelta(hours=1)
PATIENT = {"max_attempts": 7, "initial_seconds": 60, "backoff": 2, "max_seconds": 3600}
"""Its attempts begin after 0, 1, 3, 7, 15, 31 and 63 minutes."""
ROW = {"n": 1, "ip": "8.8.8.8"}


class CallsFirst(random.Random):
    """Lets every call end at the moment it begins, so that time passes by pauses alone."""

    def random(self) -> float:
        return 0.0


@dataclass(repr=False)
class Outage(World):
    """A world in which nothing outside answers before `back`.

    Attributes:
        asked: the minutes after which each attempt was made.
        ended: how the run has.
    """

    back: timedelta = timedelta.max
    asked: list[float] = field(default_factory=list[float])
    ended: RunEnd | None = None

    def _outcome(self, call: Call) -> AttemptResult:
        if call.kind not in ("look_up", "send"):
            return super()._outcome(call)
        passed: timedelta = self.now - START
        self.asked.append(passed / timedelta(minutes=1))
        if passed < self.back:
            return failed_attempt("all_providers_failed", "No source could be asked.", retryable=True)
        return AttemptResult(None, "found")


LOOKUP: dict[str, Any] = {"id": "look", "type": "ip_lookup", "config": {"field": "trigger.ip"}}
CALL: dict[str, Any] = {"id": "look", "type": "webhook", "config": {"url": "http://h/"}}


def outage(step: dict[str, Any], back: timedelta, *steps: dict[str, Any]) -> Outage:
    """The world once a run has ended whose first step is `step`."""
    world = Outage({"name": "outage", "steps": [step, *steps]}, ROW, CallsFirst(1), back=back)
    world.ended = world.run()
    return world


def step_of(world: Outage, step_id: str) -> tuple[str, Any, int]:
    record = world.records[step_id]
    return record.status, record.error.code if record.error else record.output, record.attempts


def how(world: Outage) -> tuple[str, StepError | None]:
    assert world.ended is not None
    return world.ended.status, world.ended.error


@pytest.mark.parametrize("step", [LOOKUP, CALL], ids=["a lookup", "a call"])
def test_a_step_that_is_patient_enough_outlasts_an_hour(step: dict[str, Any]) -> None:
    world = outage(step | {"retry": PATIENT}, HOUR, transform("end", "look"))
    assert world.asked == [0, 1, 3, 7, 15, 31, 63]
    assert how(world) == ("completed", None)
    assert step_of(world, "look") == ("completed", "found", 7)
    assert step_of(world, "end")[:2] == ("completed", "found")


def test_a_step_of_three_attempts_has_failed_long_before_the_hour_is_over() -> None:
    world = outage(LOOKUP, HOUR, transform("end", "look"))
    assert world.asked == [0, 1 / 60, 3 / 60]
    status, error = how(world)
    assert status == "failed" and error is not None
    assert (error.code, error.step, error.attempt) == ("all_providers_failed", "look", 3)


MEND = transform("mend", "steps.look.error.code")
END = transform("end", "[look, mend, steps.look.status]")
ON_ERROR: dict[str, tuple[Any, list[dict[str, Any]], str, Any]] = {
    "fail": ("fail", [transform("end", "'never'")], "failed", None),
    "continue": (
        "continue", [transform("end", "[look, steps.look.status]")], "completed", [None, "failed"],
    ),
    "other steps": (["mend"], [MEND, END], "completed", [None, "all_providers_failed", "failed"]),
}  # fmt: skip


@pytest.mark.parametrize("case", ON_ERROR)
def test_when_the_last_attempt_has_failed_the_error_is_handled_as_specified(case: str) -> None:
    on_error, steps, status, output = ON_ERROR[case]
    world = outage(LOOKUP | {"retry": PATIENT, "on_error": on_error}, 2 * HOUR, *steps)
    assert world.asked == [0, 1, 3, 7, 15, 31, 63]
    assert how(world)[0] == status
    assert step_of(world, "look") == ("failed", "all_providers_failed", 7)
    if output is None:
        assert "end" not in world.records
    else:
        assert step_of(world, "end")[1] == output


def test_an_item_outlasts_an_hour_too() -> None:
    each = CALL | {"for_each": "['a', 'b']", "retry": PATIENT}
    world = outage(each, HOUR, transform("end", "look"))
    assert sorted(world.asked) == sorted([0, 1, 3, 7, 15, 31, 63] * 2)
    assert step_of(world, "end")[1] == ["found", "found"]
