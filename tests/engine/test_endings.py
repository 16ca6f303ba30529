"""How a run ends: what fails it, what is still waited for, and what becomes of the rest."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from engine.calls import AttemptResult, Call, JSONObject, failed_attempt
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from language.definition import Definition
from language.progress import Progress, steps_under_way
from models.identifiers import new_id
from tests.engine.world import START

REFUSED = failed_attempt("http_status", "404")
BUSY = failed_attempt("http_status", "503", retryable=True)._replace(retry_after=60.0)
DONE = AttemptResult(None, {"n": 1})
LATER = START + timedelta(minutes=1)


def call(step_id: str, **fields: Any) -> JSONObject:
    return {"id": step_id, "type": "webhook", "config": {"url": "http://h/"}, "needs": [], **fields}


FAILS: JSONObject = {
    "id": "fails",
    "type": "transform",
    "config": {"expression": "sum(trigger)"},
    "needs": [],
}
WAIT: JSONObject = {"id": "wait", "type": "wait", "needs": []}
YEAR: JSONObject = {"id": "wait", "type": "delay", "config": {"seconds": 31_000_000}, "needs": []}


class One:
    """One run of these steps, started by a text."""

    def __init__(self, *steps: JSONObject, progress: Progress | None = None, stored: bool = False) -> None:
        plan = Plan(Definition.model_validate({"name": "test", "steps": list(steps)}))
        run = RunInput(new_id(), START, trigger="text", stored=stored, progress=progress or Progress())
        self.driver = Driver(plan, run, {"id": "-", "name": "test"})

    def advance(self, now: datetime = START) -> dict[Any, Call]:
        """Return what is to be called now, by step, or by item where there are such."""
        begun = self.driver.advance(now)
        return {one.step.id if one.item is None else one.item: one for one in begun}

    def take(self, call: Call, outcome: AttemptResult, now: datetime = START) -> None:
        self.driver.take(call, outcome, now)

    @property
    def failed_by(self) -> str | None:
        """The step that has failed the run; None while it goes on."""
        ended = self.driver.ended
        assert ended is None or (ended.status == "failed" and ended.error is not None)
        return ended and ended.error and ended.error.step

    @property
    def statuses(self) -> dict[str, str]:
        """The steps that were recorded since, with how they ended."""
        return {one.step_id: one.status for one in self.driver.take_records() if one.item is None}


def test_a_run_that_has_failed_does_not_wait_for_its_delays() -> None:
    run = One(call("call"), YEAR)
    run.take(run.advance()["call"], REFUSED)
    assert run.advance() == {} and run.failed_by == "call"
    assert run.statuses == {"call": "failed", "wait": "cancelled"}


def test_a_run_that_fails_begins_nothing_that_was_ready_beside_the_failure() -> None:
    run = One(call("call"), call("each", for_each="[1, 2]"), FAILS)
    assert run.advance() == {} and run.failed_by == "fails"


def test_the_failure_that_came_first_is_the_run_s() -> None:
    run = One(call("late"), call("first"))
    calls = run.advance()
    run.take(calls["first"], REFUSED)
    assert run.advance() == {} and run.failed_by is None, "a call is under way"
    run.take(calls["late"], REFUSED)
    assert run.advance() == {} and run.failed_by == "first"
    assert run.statuses == {"first": "failed", "late": "failed"}


def test_a_backoff_of_a_run_that_fails_leaves_its_step_cancelled() -> None:
    run = One(call("slow"), call("fails"), call("tried"))
    calls = run.advance()
    run.take(calls["tried"], BUSY)
    run.take(calls["fails"], REFUSED)
    assert run.advance() == {} and run.advance(LATER) == {} and run.failed_by is None
    run.take(calls["slow"], DONE, LATER)
    assert run.advance(LATER) == {} and run.failed_by == "fails"
    assert run.statuses == {"fails": "failed", "slow": "completed", "tried": "cancelled"}


def test_a_step_whose_items_are_known_when_its_run_has_failed_is_cancelled() -> None:
    run = One(call("each", for_each="trigger"), call("fails"), stored=True)
    calls = run.advance()
    assert calls["each"].kind == "prepare"
    run.take(calls["fails"], REFUSED)
    assert run.advance() == {} and run.failed_by is None
    run.take(calls["each"], AttemptResult(None, [1, 2, 3]))
    assert run.advance() == {} and run.failed_by == "fails"
    assert run.statuses == {"fails": "failed", "each": "cancelled"}


@pytest.mark.parametrize("outcome", [DONE, REFUSED], ids=["done", "refused"])
def test_a_step_that_an_item_has_failed_ends_after_the_items_under_way(outcome: AttemptResult) -> None:
    """What they did and cost is part of the run."""
    run = One(call("each", for_each="[1, 2, 3, 4]", max_concurrency=2))
    calls = run.advance()
    assert [*calls] == [0, 1]
    run.take(calls[0], REFUSED)
    assert run.advance() == {} and run.failed_by is None
    run.take(calls[1], outcome)
    assert run.advance() == {} and run.failed_by == "each"
    assert run.driver.ended and run.driver.ended.error
    assert run.driver.ended.error.message.startswith("Item 0:")


def test_a_run_that_has_failed_begins_no_other_items() -> None:
    run = One(call("call"), call("each", for_each="[1, 2, 3]", max_concurrency=1))
    calls = run.advance()
    run.take(calls["call"], REFUSED)
    assert run.advance() == {} and run.failed_by is None, "the item that is under way ends first"
    run.take(calls[0], DONE)
    assert run.advance() == {} and run.failed_by == "call"
    assert run.statuses == {"call": "failed", "each": "cancelled"}


def test_the_attempts_of_a_step_that_backs_off_are_remembered() -> None:
    step = call("call", retry={"max_attempts": 3})
    run = One(step)
    run.take(run.advance()["call"], BUSY)
    assert run.advance() == {} and run.driver.wakes_at == LATER
    later = One(step, progress=run.driver.progress())
    assert later.advance() == {} and later.driver.wakes_at == LATER
    assert later.advance(LATER)["call"].attempt == 2


def test_what_became_of_earlier_attempts_is_recorded_also_after_a_take_over() -> None:
    step = call("call", retry={"max_attempts": 3})
    run = One(step)
    first = run.advance()["call"]
    run.driver.start_attempt(first, START)
    failed_at = START + timedelta(seconds=5)
    run.take(first, BUSY, failed_at)
    run.advance(failed_at)
    [waiting] = run.driver.live_steps()
    due = failed_at + timedelta(seconds=60)
    [told] = waiting.attempt_log
    assert (told.attempt, told.started_at, told.at, told.next_attempt_at) == (1, START, failed_at, due)
    assert told.error.message == "503" and waiting.attempt_began is None
    late = due + timedelta(seconds=7)
    later = One(step, progress=run.driver.progress())
    second = later.advance(late)["call"]
    later.driver.start_attempt(second, late)
    assert [one.attempt_began for one in later.driver.live_steps()] == [late]
    later.take(second, DONE, late)
    later.advance(late)
    [record] = later.driver.take_records()
    assert list(record.attempt_log) == [told.model_copy(update={"next_started_at": late})]


def test_an_attempt_whose_carrier_is_lost_begins_again() -> None:
    step = call("call", retry={"max_attempts": 3})
    run = One(step)
    run.driver.start_attempt(run.advance()["call"], START)
    progress = run.driver.progress()
    assert [one.attempt_began for one in steps_under_way(progress)] == [START]
    later = One(step, progress=progress)
    again = later.advance(LATER)["call"]
    assert [one.attempt_began for one in later.driver.live_steps()] == [START], "until it is taken up"
    later.driver.start_attempt(again, LATER)
    later.take(again, BUSY, LATER)
    later.advance(LATER)
    [waiting] = later.driver.live_steps()
    assert [(one.attempt, one.started_at) for one in waiting.attempt_log] == [(1, LATER)]


def test_what_waits_when_a_failed_run_is_taken_up_again_is_cancelled() -> None:
    run = One(call("slow"), YEAR)
    run.advance()
    later = One(FAILS, YEAR, progress=run.driver.progress())
    assert later.advance() == {} and later.failed_by == "fails"
    assert later.statuses == {"fails": "failed", "wait": "cancelled"}


def test_what_waits_for_others_is_cancelled_also_where_it_is_about_to_be_asked_again() -> None:
    run = One(WAIT, call("call"), {**FAILS, "needs": ["call"]})
    calls = run.advance()
    run.take(calls["wait"], AttemptResult(None, pending=True))
    run.take(calls["call"], DONE)
    run.driver.recheck_answers()
    assert run.advance() == {} and run.failed_by == "fails"
    assert run.statuses == {"call": "completed", "fails": "failed", "wait": "cancelled"}


def test_a_call_that_was_under_way_when_its_executor_died_is_cancelled() -> None:
    run = One(call("call"))
    run.advance()
    later = One(call("call"), FAILS, progress=run.driver.progress())
    assert later.advance() == {} and later.failed_by == "fails"
    assert later.statuses == {"fails": "failed", "call": "cancelled"}


def test_an_attempt_that_was_not_begun_after_all_is_not_counted() -> None:
    run = One(call("tried"), call("call"), {**FAILS, "needs": ["call"]})
    calls = run.advance()
    run.take(calls["tried"], BUSY)
    run.take(calls["call"], DONE, LATER)
    assert run.advance(LATER) == {} and run.failed_by == "fails"
    attempts = {one.step_id: (one.status, one.attempts) for one in run.driver.take_records()}
    assert attempts["tried"] == ("cancelled", 1)
