"""The progress that an activity writes beside other activities of its run, and beside a copy of itself.

A copy is at work where a worker lost Temporal, but not the database: its activity was given to another one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine.calls import AttemptResult, Call, failed_attempt
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from execution.own_execution import merge_progress, merge_step
from language.definition import Definition
from language.progress import ItemWait, Progress, StepProgress
from models.identifiers import new_id

BEGAN = datetime(2026, 1, 5, 9, tzinfo=UTC)
DOWN = failed_attempt("connect_failed", "no", retryable=True)
STEP = {"id": "call", "type": "webhook", "retry": {"max_attempts": 3}}


def run_of(progress: Progress, **step: object) -> Driver:
    config = {"url": "https://example.com/"}
    document = {
        "name": "calls",
        "trigger": {"type": "webhook"},
        "steps": [{**STEP, "config": config, **step}],
    }
    run = RunInput(new_id(), BEGAN, trigger=[1, 2, 3], progress=progress)
    return Driver(Plan(Definition.model_validate(document)), run, {})


def fail(driver: Driver, at: datetime) -> tuple[Call, StepProgress]:
    """Begin the next call, and have it fail: the call, and what its activity knows of the step."""
    [call, *_] = driver.advance(at)
    driver.take(call, DOWN, at)
    return call, driver.progress().steps["call"]


def test_a_failed_attempt_is_added_to_the_stored_progress() -> None:
    call, mine = fail(run_of(Progress()), BEGAN)
    merged = merge_progress(Progress(), call, mine, is_done=True)
    assert merged.steps["call"].attempts == 1 and len(merged.steps["call"].attempt_log) == 1


@pytest.mark.parametrize("is_done", [True, False])
def test_a_late_copy_takes_no_attempt_back(is_done: bool) -> None:
    first, late = fail(run_of(Progress()), BEGAN)
    _, again = fail(run_of(Progress()), BEGAN)
    stored = Progress(steps={"call": again})
    assert merge_progress(stored, first, late, is_done=is_done) == stored
    _, second = fail(run_of(stored), BEGAN + timedelta(minutes=1))
    stored = Progress(steps={"call": second})
    assert second.attempts == 2
    assert merge_progress(stored, first, late, is_done=is_done) == stored


def waits(**attempts: int) -> dict[int, ItemWait]:
    """Return waiting items, as `i0=2`: the item 0 has had two attempts."""
    until = BEGAN + timedelta(minutes=1)
    return {int(name[1:]): ItemWait(attempts=number, until=until) for name, number in attempts.items()}


def stored_of(items: dict[int, ItemWait]) -> Progress:
    return Progress(steps={"call": StepProgress(began=BEGAN, items=items)})


@pytest.mark.parametrize(
    ("there", "expected"),
    [(waits(), waits(i0=1)), (waits(i0=2, i1=1), waits(i0=2, i1=1)), (waits(i1=1), waits(i0=1, i1=1))],
    ids=["the first", "a later attempt is there", "another item is there"],
)
def test_an_item_waits_as_its_last_attempt_says(
    there: dict[int, ItemWait], expected: dict[int, ItemWait]
) -> None:
    call, mine = fail(run_of(Progress(), for_each="trigger"), BEGAN)
    merged = merge_progress(stored_of(there), call, mine, is_done=True).steps["call"].items
    assert {item: one.attempts for item, one in merged.items()} == {
        item: one.attempts for item, one in expected.items()
    }


def test_an_item_that_is_done_waits_no_longer() -> None:
    driver = run_of(stored_of(waits(i0=1)), for_each="trigger")
    driver.advance(BEGAN)
    [call] = driver.advance(BEGAN + timedelta(minutes=2))
    driver.take(call, AttemptResult(None, {"status": 200}), BEGAN + timedelta(minutes=2))
    mine = driver.progress().steps["call"]
    assert merge_progress(stored_of(waits(i0=1, i1=1)), call, mine, is_done=True).steps[
        "call"
    ].items.keys() == {1}


MERGED = {
    "nothing was there": (waits(), waits(), waits(i0=1), waits(i0=1)),
    "what is done is dropped": (waits(i0=1, i1=1), waits(i0=1, i1=1), waits(i1=2), waits(i1=2)),
    "a copy has added an item": (waits(i0=1), waits(i0=1, i2=1), waits(i0=1), waits(i0=1, i2=1)),
    "a copy is further": (waits(i0=1), waits(i0=2), waits(i0=1), waits(i0=2)),
    "a copy has finished one": (waits(i0=1), waits(), waits(i0=2), waits(i0=2)),
}


@pytest.mark.parametrize("case", MERGED)
def test_the_items_of_a_step_are_those_of_both_copies(case: str) -> None:
    known, there, mine, expected = MERGED[case]
    now = StepProgress(began=BEGAN, items=mine)
    assert merge_step(stored_of(there), "call", known, now).steps["call"].items == expected
