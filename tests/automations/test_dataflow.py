"""Which steps of a run are taken, in which order: needs, branches, stops and failures."""

from datetime import UTC, datetime
from typing import Any

import pytest

from engine.plan import Plan
from language.definition import Definition
from language.records import DoneStep, StepError
from models.identifiers import new_id
from workflows.dataflow import RowState
from workflows.messages import BatchRow


def transform(step_id: str, **more: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "transform", "config": {"expression": "`1`"}, **more}


def condition(step_id: str, **branches: list[str]) -> dict[str, Any]:
    return {"id": step_id, "type": "condition", "config": {"expression": "true", **branches}}


def walk(steps: list[dict[str, Any]], results: dict[str, bool | str]) -> tuple[list[list[str]], RowState]:
    """Run the steps wave by wave; conditions answer as `results` says, steps named "fail" there fail."""
    plan = Plan(Definition.model_validate({"name": "w", "steps": steps}))
    row = RowState(plan, BatchRow(run_id=new_id(), started_at=datetime.now(UTC)), {"id": "1", "name": "w"})
    waves: list[list[str]] = []
    while wave := [step.id for step in row.ready()]:
        waves.append(wave)
        row.at_work.update(wave)
        for step_id in wave:
            result = results.get(step_id)
            if result == "fail":
                row.settle(step_id, "failed", None, StepError(code="http_status", message="no"))
            else:
                row.settle(step_id, "completed", {"result": result})
    return waves, row


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, bool | str], list[list[str]]]] = {
    "steps run one after the other": (
        [transform("a"), transform("b"), transform("c")], {}, [["a"], ["b"], ["c"]],
    ),
    "needs replace the order, so that independent steps run side by side": (
        [transform("a"), transform("b", needs=[]), transform("c", needs=["a", "b"])], {}, [["a", "b"], ["c"]],
    ),
    "a true condition without branches goes on": (
        [condition("if"), transform("a")], {"if": True}, [["if"], ["a"]],
    ),
    "a false condition without branches skips all that depends on it": (
        [condition("if"), transform("a"), transform("b"), transform("free", needs=[])],
        {"if": False}, [["if", "free"]],
    ),
    "then is taken, else skipped, and a step on no branch runs": (
        [condition("if", then=["a"], **{"else": ["b"]}), transform("a"), transform("b"), transform("c")],
        {"if": True}, [["if"], ["a"], ["c"]],
    ),
    "else is taken, then skipped": (
        [condition("if", then=["a"], **{"else": ["b"]}), transform("a"), transform("b"), transform("c")],
        {"if": False}, [["if"], ["b"], ["c"]],
    ),
    "skipping a condition skips what is on its branches": (
        [condition("if", then=["inner"]), condition("inner", then=["a"], **{"else": ["b"]}),
         transform("a"), transform("b"), transform("c")],
        {"if": False}, [["if"], ["c"]],
    ),
    "a nested condition decides when its own branch is taken": (
        [condition("if", then=["inner"]), condition("inner", then=["a"], **{"else": ["b"]}),
         transform("a"), transform("b")],
        {"if": True, "inner": False}, [["if"], ["inner"], ["b"]],
    ),
    "a member of a branch waits for its condition whatever it needs": (
        [transform("slow"), condition("if", then=["a"]), transform("a", needs=[])],
        {"if": True}, [["slow"], ["if"], ["a"]],
    ),
    "a failed step with on_error continue lets the run go on": (
        [transform("a", on_error="continue"), transform("b")], {"a": "fail"}, [["a"], ["b"]],
    ),
    "the steps of on_error run when the step has failed": (
        [transform("a", on_error=["mend"]), transform("mend"), transform("b")],
        {"a": "fail"}, [["a"], ["mend"], ["b"]],
    ),
    "the steps of on_error are skipped when the step has not failed": (
        [transform("a", on_error=["mend"]), transform("mend"), transform("b")], {}, [["a"], ["b"]],
    ),
    "a failed step ends the run": (
        [transform("a"), transform("b"), transform("c")], {"b": "fail"}, [["a"], ["b"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_steps_run_when_what_they_need_is_done(case: str) -> None:
    steps, results, expected = CASES[case]
    waves, row = walk(steps, results)
    assert waves == expected
    assert row.finished


def test_a_failed_step_is_named_in_the_error_of_its_run() -> None:
    _, row = walk([transform("a"), transform("b")], {"b": "fail"})
    assert row.error == StepError(code="http_status", message="no", step="b")


def test_a_run_that_went_on_after_a_failed_step_has_no_error() -> None:
    _, row = walk([transform("a", on_error="continue"), transform("b")], {"a": "fail"})
    assert row.error is None


def test_a_row_with_a_step_at_work_is_not_finished() -> None:
    plan = Plan(Definition.model_validate({"name": "w", "steps": [transform("a")]}))
    row = RowState(plan, BatchRow(run_id=new_id(), started_at=datetime.now(UTC)), {})
    row.at_work.add("a")
    assert list(row.ready()) == [] and not row.finished


def test_only_outputs_that_later_steps_read_are_kept() -> None:
    steps = [transform("a"), transform("b"), {**transform("c"), "config": {"expression": "a.x"}}]
    _, row = walk(steps, {})
    assert "a" in row.scope and "b" not in row.scope


def test_a_run_begun_by_an_earlier_batch_goes_on_behind_its_finished_steps() -> None:
    plan = Plan(Definition.model_validate({"name": "w", "steps": [transform("a"), transform("b")]}))
    done = [DoneStep(step_id="a", status="completed")]
    row = RowState(plan, BatchRow(run_id=new_id(), started_at=datetime.now(UTC), done=done), {})
    assert [step.id for step in row.ready()] == ["b"]


def test_what_does_not_fit_into_a_message_is_read_from_its_row() -> None:
    steps = [transform("a"), transform("b"), {"id": "c", "type": "transform", "config": {"expression": "@"}}]
    plan = Plan(Definition.model_validate({"name": "w", "steps": steps}))
    row = RowState(plan, BatchRow(run_id=new_id(), started_at=datetime.now(UTC), size=10), {})
    row.settle("a", "completed", "large", size=1000)
    row.settle("b", "completed", "small", size=10)
    reading = row.read(plan.reads["c"], 100)
    assert (reading.stored, reading.size) == (["a"], 20)
    assert "a" not in reading.scope and reading.scope["b"] == "small"
    outputs = {step_id: step["output"] for step_id, step in reading.scope["steps"].items()}
    assert outputs == {"a": None, "b": "small"}
