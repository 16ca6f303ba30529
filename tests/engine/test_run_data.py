"""What a webhook step without a body sends: the data of its run."""

from __future__ import annotations

from typing import Any

import pytest

from engine.calls import AttemptResult, Call, JSONObject
from engine.driver import Driver
from engine.plan import Plan
from engine.state import RunInput
from language.definition import Definition
from language.expressions import ExpressionError
from language.records import DoneStep
from language.steps import WebhookStep
from language.webhook_requests import RequestTemplates
from models.identifiers import new_id
from tests.engine.world import START


def call(step_id: str = "call", **fields: Any) -> JSONObject:
    return {"id": step_id, "type": "webhook", "config": {"url": "http://h/"}, **fields}


def transform(step_id: str, expression: str, **fields: Any) -> JSONObject:
    return {"id": step_id, "type": "transform", "config": {"expression": expression}, **fields}


def driver_of(steps: list[JSONObject], trigger: Any = None, *done: DoneStep) -> Driver:
    plan = Plan(Definition.model_validate({"name": "test", "steps": steps}))
    run = RunInput(new_id(), START, trigger=trigger, request={"headers": {"x-token": "s3cret"}}, done=done)
    return Driver(plan, run, {"id": "-", "name": "test"})


def body_of(one: Call) -> Any:
    assert isinstance(one.step, WebhookStep)
    scope = {**one.complete_scope({}), "secrets": {"NAME": "s3cret"}}
    return RequestTemplates(one.step.config).render(scope, output_of=one.output_of).body


def test_it_has_neither_secrets_nor_the_request() -> None:
    [one] = driver_of([call()], "event").advance(START)
    sent = body_of(one)
    assert sent.keys() == {"workflow", "run", "trigger", "output"} and "s3cret" not in str(sent)


def test_it_has_no_resume_urls_although_the_step_may_read_them() -> None:
    [one] = driver_of([call()]).advance(START)
    assert isinstance(one.step, WebhookStep)
    scope = {**one.scope, "run": {**one.scope["run"], "resume_urls": {"wait": "http://h/token"}}}
    sent: Any = RequestTemplates(one.step.config).render(scope).body
    assert sent["run"].keys() == {"id", "queued_at", "started_at"}


def test_before_any_step_has_completed_its_output_is_null() -> None:
    [one] = driver_of([call()], "event").advance(START)
    assert body_of(one)["output"] is None


def test_its_output_is_that_of_the_last_step_completed_before_it() -> None:
    skipped = transform("skipped", "'no'") | {"if": "`false`"}
    steps = [transform("first", "'one'"), skipped, call()]
    [one] = driver_of(steps).advance(START)
    assert body_of(one)["output"] == "one"


def test_its_output_is_of_a_step_that_it_waits_for_so_that_a_repetition_sends_the_same() -> None:
    steps = [transform("first", "'one'"), transform("beside", "'two'", needs=[]), call(needs=["first"])]
    [one] = driver_of(steps).advance(START)
    assert body_of(one)["output"] == "one"


def test_a_run_that_is_taken_up_again_sends_the_same() -> None:
    done = DoneStep(step_id="first", status="completed", output="one")
    [one] = driver_of([transform("first", "'one'"), call()], None, done).advance(START)
    assert body_of(one)["output"] == "one"


def test_in_a_for_each_it_has_the_item() -> None:
    calls = driver_of([call(for_each="trigger")], ["a", "b"]).advance(START)
    assert [body_of(one)["item"] for one in calls] == ["a", "b"]


def test_a_large_output_is_read_from_its_row() -> None:
    driver = driver_of([call("first"), call()], "event")
    [first] = driver.advance(START)
    driver.take(first, AttemptResult(None, "x" * 100_000), START)
    [one] = driver.advance(START)
    assert (one.output_of, one.stored) == ("first", ("first",))


def test_what_is_too_much_to_be_sent_fails_the_step_and_asks_for_a_body() -> None:
    [one] = driver_of([call()], "x" * 1_048_577).advance(START)
    with pytest.raises(ExpressionError, match="give the step a body") as refused:
        body_of(one)
    assert refused.value.code == "output_too_large"
