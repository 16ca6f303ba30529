"""Sources that are down for an hour: how often a step asks, when, and what becomes of its run.

In the world without Temporal, time passes without anybody waiting.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from activities.steps import Job
from engine.calls import Outcome, failure
from tests.automations.engine import transform
from tests.automations.world import START, World, run_id
from workflows.messages import LOOKUP_MANY, SEND_MANY, StepCalls

HOUR = timedelta(hours=1)
PATIENT = {"max_attempts": 7, "initial_seconds": 60, "backoff": 2, "max_seconds": 3600}
"""Its attempts begin after 0, 1, 3, 7, 15, 31 and 63 minutes."""
ROW = {"n": 1, "ip": "8.8.8.8"}


class CallsFirst(random.Random):
    """Lets every call end at the moment it begins, so that time passes by pauses alone."""

    def random(self) -> float:
        return 0.0


@dataclass
class Outage(World):
    """A world in which nothing outside answers before `back`.

    Attributes:
        asked: the minutes after which each attempt was made.
    """

    back: timedelta = timedelta.max
    asked: list[float] = field(default_factory=list[float])

    def _outcome(self, calls: StepCalls, activity: str, job: Job) -> Outcome:
        if activity not in (LOOKUP_MANY, SEND_MANY):
            return super()._outcome(calls, activity, job)
        passed: timedelta = self.now - START
        self.asked.append(passed / timedelta(minutes=1))
        if passed < self.back:
            return failure("all_providers_failed", "No source could be asked.", retryable=True)
        return Outcome(None, "found")


LOOKUP: dict[str, Any] = {"id": "look", "type": "ip_lookup", "config": {"field": "trigger.ip"}}
CALL: dict[str, Any] = {"id": "look", "type": "webhook", "config": {"url": "http://h/"}}


def outage(step: dict[str, Any], back: timedelta, *steps: dict[str, Any]) -> Outage:
    """The world once a run has ended whose first step is `step`."""
    world = Outage({"name": "outage", "steps": [step, *steps]}, CallsFirst(1), back=back)
    world.run([ROW])
    return world


def step_of(world: Outage, step_id: str) -> tuple[str, Any, int]:
    record = world.records[run_id(ROW), step_id]
    return record.status, record.error.code if record.error else record.output, record.attempts


@pytest.mark.parametrize("step", [LOOKUP, CALL], ids=["a lookup", "a call"])
def test_a_step_that_is_patient_enough_outlasts_an_hour(step: dict[str, Any]) -> None:
    world = outage(step | {"retry": PATIENT}, HOUR, transform("end", "look"))
    assert world.asked == [0, 1, 3, 7, 15, 31, 63]
    assert world.endings[run_id(ROW)] == ("completed", None)
    assert step_of(world, "look") == ("completed", "found", 7)
    assert step_of(world, "end")[:2] == ("completed", "found")


def test_a_step_of_three_attempts_has_failed_long_before_the_hour_is_over() -> None:
    world = outage(LOOKUP, HOUR, transform("end", "look"))
    assert world.asked == [0, 1 / 60, 3 / 60]
    status, error = world.endings[run_id(ROW)]
    assert status == "failed" and (error.code, error.step, error.attempt) == (
        "all_providers_failed", "look", 3,
    )  # fmt: skip


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
    assert world.endings[run_id(ROW)][0] == status
    assert step_of(world, "look") == ("failed", "all_providers_failed", 7)
    if output is None:
        assert (run_id(ROW), "end") not in world.records
    else:
        assert step_of(world, "end")[1] == output


def test_an_item_outlasts_an_hour_too() -> None:
    each = CALL | {"for_each": "['a', 'b']", "retry": PATIENT}
    world = outage(each, HOUR, transform("end", "look"))
    assert sorted(world.asked) == sorted([0, 1, 3, 7, 15, 31, 63] * 2)
    assert step_of(world, "end")[1] == ["found", "found"]


def test_a_mate_that_waits_out_an_outage_of_its_own_holds_nobody_up() -> None:
    """Rows of one batch whose sources come back at different times."""
    rows = [{"n": n, "ip": "8.8.8.8"} for n in range(3)]
    ends: dict[int, datetime] = {}

    class Apart(Outage):
        def _outcome(self, calls: StepCalls, activity: str, job: Job) -> Outcome:
            number = next(n for n, row in enumerate(rows) if run_id(row) == job.call.run_id)
            self.back = number * HOUR / 2
            outcome = super()._outcome(calls, activity, job)
            if outcome.error is None:
                ends[number] = self.now
            return outcome

    world = Apart({"name": "apart", "steps": [LOOKUP | {"retry": PATIENT}]}, CallsFirst(1))
    world.run(rows)
    assert {n: (end - START) / timedelta(minutes=1) for n, end in ends.items()} == {0: 0, 1: 31, 2: 63}
    assert [world.endings[run_id(row)][0] for row in rows] == ["completed"] * 3
