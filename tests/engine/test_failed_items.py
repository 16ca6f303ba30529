"""What the items of a `for_each` that fail mean for their step and its run."""

from __future__ import annotations

from typing import Any

import pytest

from engine.calls import AttemptResult, JSONObject, failed_attempt
from engine.driver import Driver
from engine.plan import Plan
from engine.records import RunEnd
from engine.state import RunInput
from language.definition import Definition
from language.records import StepError, StepRecord
from models.identifiers import new_id
from tests.engine.world import START

NO_CREDITS = failed_attempt("insufficient_credits", "This needs 1 credit; the balance is 0.")
AFTER: JSONObject = {"id": "after", "type": "transform", "config": {"expression": "trigger"}}
CONTINUE: JSONObject = {"on_error": "continue"}


def lookups(**fields: Any) -> JSONObject:
    """A step that looks up each item of the event."""
    return {"id": "each", "type": "ip_lookup", "for_each": "trigger", "config": {"field": "item"}, **fields}


def transforms(**fields: Any) -> JSONObject:
    """A step that adds up each item of the event."""
    config = {"expression": "sum(item)"}
    return {"id": "each", "type": "transform", "for_each": "trigger", "config": config, **fields}


def driven(
    step: JSONObject,
    trigger: Any,
    *failing: int,
    error: AttemptResult | None = None,
    done: dict[int, Any] | None = None,
) -> tuple[RunEnd, StepRecord, list[int]]:
    """Run the step and one after it.

    Args:
        step: which.
        trigger: the event.
        failing: the items that fail.
        error: with which outcome; with `refused` if none is given.
        done: the items that were done before, each with its error if it failed.

    Returns:
        How the run ended, the record of the step, and which items were called.
    """
    plan = Plan(Definition.model_validate({"name": "test", "steps": [step, AFTER]}))
    items = {"each": done} if done else {}
    driver = Driver(plan, RunInput(new_id(), START, trigger=trigger, items=items), {"id": "-", "name": "-"})
    called: list[int] = []
    while calls := driver.advance(START):
        for call in calls:
            assert call.item is not None
            called.append(call.item)
            refused = error or failed_attempt("refused", f"No {call.item}.")
            driver.take(call, refused if call.item in failing else AttemptResult(None, call.item), START)
    assert driver.ended is not None
    [record] = [one for one in driver.take_records() if one.step_id == "each" and one.item is None]
    return driver.ended, record, called


FAIL_IF: dict[str, tuple[JSONObject, int, bool]] = {
    "some fail, and nothing is said": ({}, 3, False),
    "all fail, and nothing is said": ({}, 4, True),
    "none fails, where any would do": ({"on_items": {"fail_if": "any"}}, 0, False),
    "one fails, where any does": ({"on_items": {"fail_if": "any"}}, 1, True),
    "some fail, where all must": ({"on_items": {"fail_if": "all"}}, 3, False),
    "fewer than the share fail": ({"on_items": {"fail_if": 0.5}}, 1, False),
    "as many as the share fail": ({"on_items": {"fail_if": 0.5}}, 2, True),
    "all fail, which is the share": ({"on_items": {"fail_if": 1}}, 4, True),
    "all fail, where none matters": ({"on_items": {"fail_if": "never"}}, 4, False),
}


@pytest.mark.parametrize("case", FAIL_IF)
def test_items_fail_their_step_and_the_run_as_on_items_says(case: str) -> None:
    fields, failing, fails = FAIL_IF[case]
    ended, record, called = driven(lookups(**CONTINUE, **fields), ["a", "b", "c", "d"], *range(failing))
    assert called == [0, 1, 2, 3], "each item is done all the same"
    assert (ended.status, record.status) == (("failed", "failed") if fails else ("completed", "completed"))
    assert (record.items_total, record.items_failed) == (4, failing)


def test_the_error_says_how_many_of_how_many_failed_and_why_the_first_did() -> None:
    step = lookups(**CONTINUE, on_items={"fail_if": 0.5})
    ended, record, _ = driven(step, ["a", "b", "c"], 1, 2)
    message = "2 of 3 items failed; the first is item 1 (refused): No 1."
    assert record.error == StepError(code="items_failed", message=message)
    assert ended.error == StepError(code="items_failed", message=message, step="each")


@pytest.mark.parametrize("step", [lookups, transforms])
def test_a_step_over_no_items_completes(step: Any) -> None:
    ended, record, _ = driven(step(**CONTINUE, on_items={"fail_if": "any"}), [])
    assert (ended.status, record.items_total, record.items_failed) == ("completed", 0, 0)


@pytest.mark.parametrize(("trigger", "status"), [([[1], "x"], "completed"), (["x", "x"], "failed")])
def test_a_transform_counts_its_items_too(trigger: Any, status: str) -> None:
    ended, record, _ = driven(transforms(**CONTINUE), trigger)
    assert (ended.status, record.status) == (status, status)
    assert (record.items_total, record.items_failed) == (2, trigger.count("x"))


CANNOT_BEGIN: dict[str, tuple[JSONObject, Any, str]] = {
    "too many items": ({}, [*range(1001)], "too_many_items"),
    "no array": ({}, "text", "not_an_array"),
    "an expression that fails": ({"for_each": "sum(trigger)"}, "text", "wrong_type"),
    "an if that fails": ({"if": "sum(trigger)"}, "text", "wrong_type"),
}


@pytest.mark.parametrize("step", [lookups, transforms])
@pytest.mark.parametrize("case", CANNOT_BEGIN)
def test_a_step_that_cannot_begin_fails_the_run_whatever_it_says_of_its_items(case: str, step: Any) -> None:
    fields, trigger, code = CANNOT_BEGIN[case]
    ended, record, called = driven(step(**CONTINUE, **fields), trigger)
    assert (ended.status, record.status, called) == ("failed", "failed", [])
    assert ended.error is not None and (ended.error.code, ended.error.step) == (code, "each")
    assert record.items_total is None


def test_a_step_that_cannot_begin_goes_on_with_the_steps_that_run_only_then() -> None:
    ended, record, _ = driven(lookups(on_error=["after"]), "text")
    assert (ended.status, ended.output_of, record.status) == ("completed", "after", "failed")


def test_an_item_without_credits_fails_the_step_and_no_other_is_begun() -> None:
    ended, record, called = driven(
        lookups(**CONTINUE, max_concurrency=1), ["a", "b", "c"], 1, error=NO_CREDITS
    )
    assert ended.status == "failed" and called == [0, 1]
    assert record.error is not None and record.error.code == "insufficient_credits"
    assert (record.items_total, record.items_failed) == (3, 1)


@pytest.mark.parametrize(
    ("code", "expected"), [("refused", "items_failed"), ("insufficient_credits", "insufficient_credits")]
)
def test_items_that_failed_before_a_crash_count_after_it(code: str, expected: str) -> None:
    done = {0: StepError(code=code, message="-"), 1: StepError(code="refused", message="-")}
    ended, record, called = driven(lookups(**CONTINUE), ["a", "b"], done=done)
    assert ended.error is not None and (ended.error.code, called) == (expected, [])
    assert (record.items_total, record.items_failed) == (2, 2)
