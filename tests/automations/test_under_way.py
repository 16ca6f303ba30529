"""What becomes of the steps that are under way when their run ends, or when a new history begins."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from language.records import DoneStep, StepError
from tests.automations.test_bounds import failing, interpreter_of
from tests.automations.world import NAMESPACE, START, JSONObject
from workflows import bounds
from workflows.calls import Call, Command, End, Timer
from workflows.interpreter import Interpreter
from workflows.messages import PREPARE_MANY, Batch, BatchRow, EarlyResults, StepResult

NAP: JSONObject = {"type": "delay", "config": {"seconds": 60}, "needs": []}
CALL: JSONObject = {"type": "webhook", "config": {"url": "http://h/"}, "needs": []}
REFUSED = StepError(code="http_status", message="503")


def calls_of(commands: list[Command]) -> dict[str, Call]:
    return {command.calls.step.id: command for command in commands if isinstance(command, Call)}


def refused(call: Call) -> list[StepResult]:
    """Every attempt failed, and is to be repeated in a minute."""
    return [
        StepResult(
            run_id=one.run_id, item=item.item if item else None, attempt=1, status="failed", error=REFUSED,
            retry_after=60,
        )
        for one in call.calls.calls
        for item in one.items or [None]
    ]  # fmt: skip


def end_of(commands: list[Command]) -> tuple[Any, dict[str, str]]:
    """Which step failed the only run, and the records that go with its end."""
    [end] = [command for command in commands if isinstance(command, End)]
    [ending] = end.endings.endings
    assert ending.error is None or ending.status == "failed"
    return ending.error and ending.error.step, {one.step_id: one.status for one in end.endings.records}


def renewed(interpreter: Interpreter, steps: list[JSONObject], done: list[DoneStep]) -> Interpreter:
    """The same batch with a new history."""
    progress = interpreter.progress()
    rows = [BatchRow(run_id=run_id, trigger={}, started_at=START, done=done) for run_id in progress]
    batch = Batch(
        batch_id=NAMESPACE, account_id=NAMESPACE, automation_id=NAMESPACE, version=1, priority=2,
        definition={"name": "w", "steps": steps}, rows=rows, progress=progress,
    )  # fmt: skip
    return Interpreter(batch, lambda: START)


def test_a_backoff_that_ends_in_a_failed_run_leaves_its_step_cancelled() -> None:
    steps = [{"id": one, **CALL} for one in ("slow", "fails", "tried")]
    batch = interpreter_of(steps, [{}])
    calls = calls_of(batch.advance())
    batch.take_results(calls["tried"], refused(calls["tried"]))
    [timer] = batch.advance()
    batch.take_results(calls["fails"], failing(calls["fails"]))
    assert batch.advance() == [] and isinstance(timer, Timer)
    timer.then()
    assert batch.advance() == []
    [one] = calls["slow"].calls.calls
    batch.take_results(calls["slow"], [StepResult(run_id=one.run_id, status="completed")])
    assert end_of(batch.advance()) == ("fails", {"tried": "cancelled"})


def test_an_attempt_that_is_not_repeated_since_the_run_fails_leaves_its_step_cancelled() -> None:
    fails = {"id": "fails", "type": "transform", "config": {"expression": "sum(trigger)"}}
    batch = interpreter_of([{"id": "tried", **CALL}, {"id": "before", **CALL}, fails], ["no numbers"])
    calls = calls_of(batch.advance())
    batch.take_results(calls["tried"], refused(calls["tried"]))
    [timer] = batch.advance()
    assert isinstance(timer, Timer)
    [one] = calls["before"].calls.calls
    batch.take_results(calls["before"], [StepResult(run_id=one.run_id, status="completed")])
    timer.then()
    assert end_of(batch.advance()) == ("fails", {"fails": "failed", "tried": "cancelled"})


def test_a_step_that_was_prepared_when_its_run_failed_is_cancelled() -> None:
    each = {"id": "each", **CALL, "for_each": "trigger.items"}
    row = BatchRow(run_id=UUID(int=1), started_at=START, stored=True)
    batch = Batch(
        batch_id=NAMESPACE, account_id=NAMESPACE, automation_id=NAMESPACE, version=1, priority=2,
        definition={"name": "w", "steps": [each, {"id": "fails", **CALL}]}, rows=[row],
    )  # fmt: skip
    interpreter = Interpreter(batch, lambda: START)
    calls = calls_of(interpreter.advance())
    assert calls["each"].activity == PREPARE_MANY
    interpreter.take_results(calls["fails"], failing(calls["fails"]))
    assert interpreter.advance() == []
    prepared = StepResult(run_id=row.run_id, status="completed", output=3)
    interpreter.take_results(calls["each"], [prepared])
    assert end_of(interpreter.advance()) == ("fails", {"each": "cancelled"})


def test_the_failure_that_came_first_is_the_run_s() -> None:
    batch = interpreter_of([{"id": "late", **CALL}, {"id": "first", **CALL}], [{}])
    calls = calls_of(batch.advance())
    batch.take_results(calls["first"], failing(calls["first"]))
    assert batch.advance() == []
    batch.take_results(calls["late"], failing(calls["late"]))
    assert end_of(batch.advance()) == ("first", {})


def test_what_waits_when_a_failed_run_goes_on_with_a_new_history_is_cancelled() -> None:
    steps = [{"id": "nap", **NAP}, {"id": "fails", **CALL}]
    batch = interpreter_of(steps, [{}])
    calls = calls_of(batch.advance())
    batch.take_results(calls["fails"], failing(calls["fails"]))
    done = [DoneStep(step_id="fails", status="failed", error=REFUSED)]
    assert end_of(renewed(batch, steps, done).advance()) == ("fails", {"nap": "cancelled"})


def test_a_history_that_ends_before_it_came_to_a_row_loses_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [{"id": "call", **CALL}, {"id": "each", **CALL, "for_each": "[1, 2]"}]
    first = interpreter_of(steps, [{}] * 2)
    for call in calls_of(first.advance()).values():
        first.take_results(call, refused(call))
    live = {run_id: first.live_steps(run_id) for run_id in first.progress()}
    assert [len(steps) for steps in live.values()] == [2, 2]
    # Now a task evaluates for one row only.
    monkeypatch.setattr(bounds, "_NODES_PER_TASK", 1)
    second = renewed(first, steps, [])
    second.advance()
    assert second.progress() == first.progress()
    third = renewed(second, steps, [])
    assert {run_id: third.live_steps(run_id) for run_id in live} == live
    third.cancel(list(live))
    assert end_of_all(third.commands()) == [("call", "cancelled"), ("each", "cancelled")] * 2


def end_of_all(commands: list[Command]) -> list[tuple[str, str]]:
    return [
        (one.step_id, one.status)
        for command in commands
        if isinstance(command, End)
        for one in command.endings.records
    ]


def test_what_a_lost_activity_tells_a_later_history_counts_no_more() -> None:
    steps = [{"id": "call", **CALL}]
    first = interpreter_of(steps, [{}])
    [call] = calls_of(first.advance()).values()
    first.take_results(call, refused(call))
    later = renewed(first, steps, [])
    [timer] = later.advance()
    assert isinstance(timer, Timer)
    timer.then()
    [again] = calls_of(later.advance()).values()
    assert again.calls.calls[0].attempt == 2
    later.take_early_results(EarlyResults(step_id="call", results=refused(call)))
    assert later.advance() == []
    assert [step.status for step in later.live_steps(again.calls.calls[0].run_id)] == ["running"]
