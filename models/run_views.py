"""The run object of the API: made of a run's row, its steps' rows, and what is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, ValidationError

from language.delays import written
from language.progress import read_progress, steps_under_way
from language.records import LiveStep
from models.views import View

RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]
TriggerType = Literal[
    "manual", "webhook", "schedule", "file_upload", "monitor_event", "workflow", "on_failure"
]


class StepView(View):
    """One step of the run object of the API."""

    id: str = Field(description="The step's id.")
    type: str = Field(description="Its type.")
    status: StepStatus = Field(description="Where it stands.")
    input: Any = Field(
        default=None, description="What it was given: of a webhook the request, of a lookup the target."
    )
    output: Any = Field(default=None, description="What later steps can read; null if there is none.")
    error: dict[str, Any] | None = Field(
        default=None, description="Why it failed, as `code` and `message`; null if it did not."
    )
    attempts: int = Field(default=0, description="How often it was tried.")
    duration_ms: int | None = Field(default=None, description="From its start to its end, in milliseconds.")
    credits_used: int = Field(default=0, description="What its answer cost.")
    started_at: datetime | None = Field(default=None, description="When it began; null before.")
    completed_at: datetime | None = Field(default=None, description="When it ended; null before.")
    mocked: bool = Field(
        default_factory=bool,
        exclude_if=lambda mocked: not mocked,
        description="True in a dry run, where its output is the mock that it was given; else absent.",
    )


class RunHead(View):
    """What every run object of the API has."""

    id: UUID = Field(description="The run's id.")
    workflow_id: UUID = Field(description="The workflow that it is a run of.")
    workflow_name: str = Field(description="What that is called now.")
    workflow_version: int = Field(description="The version that it runs.")
    status: RunStatus = Field(description="Where it stands.")
    trigger: TriggerType = Field(description="What started it.")
    error: dict[str, Any] | None = Field(
        description="Why it failed, as `step`, `code` and `message`; null if it did not."
    )
    steps_total: int = Field(description="How many steps it has.")
    steps_completed: int = Field(description="How many of them completed.")
    credits_used: int = Field(
        description="What the ledger has for it so far; a lookup that a cancel came upon may still add to it."
    )
    started_at: datetime | None = Field(description="When it began; null before.")
    completed_at: datetime | None = Field(description="When it ended; null before.")
    duration_ms: int | None = Field(description="From its start to its end, in milliseconds.")
    restarted_from: UUID | None = Field(description="The run that this one is a retry of.")
    parent_run_id: UUID | None = Field(
        default=None, description="The run that has this one as a step, or whose failure it follows."
    )
    test: bool = Field(default=False, description="Whether it was a dry run, of which nothing is kept.")


class RunView(RunHead):
    """The run object of the API, whole."""

    input: Any = Field(description="The event: what expressions read as `trigger`.")
    output: Any = Field(description="The output of the last completed step in list order.")
    steps: list[StepView] = Field(description="Its steps, in list order.")
    resume_urls: dict[str, str] | None = Field(
        default=None,
        description="Where to post the answers of the steps that wait, or are to wait, by step: who has one"
        " can do so. Only where this one run is asked for or watched, while it goes on.",
    )


def view_of(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, test: bool = False) -> RunView:
    """The run object.

    Args:
        run: the row of the run, the `name` of its workflow, and as `definition_steps` the `id` and `type`
            of each of its steps.
        rows: of the steps that are done.
        test: see `RunView`.
    """
    steps = _steps_of(run, rows)
    completed = sum(step.status == "completed" for step in steps)
    view = RunView(
        **head_fields(run, len(steps), completed),
        test=test,
        input=run["input"],
        output=run["output"],
        steps=steps,
    )
    # Of a run that was cancelled too: who cancels it leaves no records of what was under way.
    return view if run["status"] in ("completed", "failed") else with_live_steps(view, _under_way(run))


def head_fields(run: Mapping[str, Any], steps_total: int, steps_completed: int) -> dict[str, Any]:
    """The fields of a `RunHead`, from the row of the run and the `name` of its workflow."""
    names = (
        "id",
        "status",
        "trigger",
        "error",
        "credits_used",
        "started_at",
        "completed_at",
        "restarted_from",
        "parent_run_id",
    )
    return {name: run[name] for name in names} | {
        "workflow_id": run["automation_id"],
        "workflow_name": run["name"],
        "workflow_version": run["version"],
        "steps_total": steps_total,
        "steps_completed": steps_completed,
        "duration_ms": _milliseconds(run["started_at"], run["completed_at"]),
    }


def _steps_of(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[StepView]:
    done = {row["step_id"]: row for row in rows}
    missing: StepStatus = "pending" if run["completed_at"] is None else "skipped"
    return [_step_view(step, done.get(step["id"]), missing) for step in run["definition_steps"] or ()]


def _under_way(run: Mapping[str, Any]) -> list[LiveStep]:
    """The steps that have begun and are not done; none where another build has written of them."""
    try:
        return steps_under_way(read_progress(run["progress"]))
    except ValidationError:
        return []


def with_live_steps(view: RunView, live: Sequence[LiveStep]) -> RunView:
    """The run with its steps under way, where the rows do not know of them; cancelled if the run is over."""
    under_way = {step.step_id: step for step in live}
    steps = [
        step.model_copy(update=_live_fields(under_way[step.id], view.completed_at))
        if step.status in ("pending", "skipped") and step.id in under_way
        else step
        for step in view.steps
    ]
    return view.model_copy(update={"steps": steps})


def _live_fields(live: LiveStep, cancelled_at: datetime | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "status": live.status, "attempts": live.attempts, "started_at": live.started_at
    }  # fmt: skip
    if live.until is not None:
        fields["output"] = {"until": written(live.until)}
    if cancelled_at is not None:
        took = _milliseconds(live.started_at, cancelled_at)
        fields |= {"status": "cancelled", "completed_at": cancelled_at, "duration_ms": took}
    return fields


def _step_view(step: dict[str, Any], row: Mapping[str, Any] | None, missing: StepStatus) -> StepView:
    if row is None:
        return StepView(id=step["id"], type=step["type"], status=missing)
    return StepView(
        id=step["id"],
        type=step["type"],
        duration_ms=_milliseconds(row["started_at"], row["completed_at"]),
        **{name: row[name] for name in row if name in StepView.model_fields},
    )


def _milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))
