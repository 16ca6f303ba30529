"""The run object of the API: made of a run's row, its steps' rows, and what is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from workflows.messages import LiveStep

RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]
TriggerType = Literal["manual", "webhook", "schedule", "file_upload", "monitor_event"]


class StepView(BaseModel, frozen=True):
    """One step of the run object of the API."""

    id: str
    type: str
    status: StepStatus
    input: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    attempts: int = 0
    duration_ms: int | None = None
    credits_used: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None


class RunView(BaseModel, frozen=True):
    """The run object of the API.

    Attributes:
        credits_used: so far, while the run goes on.
        restarted_from: the run that this one is a retry of.
        test: it was a dry run, of which nothing is kept.
    """

    id: UUID
    workflow_id: UUID
    workflow_name: str
    workflow_version: int
    status: RunStatus
    trigger: TriggerType
    input: Any
    output: Any
    error: dict[str, Any] | None
    steps: list[StepView]
    steps_total: int
    steps_completed: int
    credits_used: int
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    restarted_from: UUID | None
    test: bool = False


def view_of(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, test: bool = False) -> RunView:
    """The run object.

    Args:
        run: the row of the run, the `name` of its workflow, and as `definition_steps` the `id` and `type`
            of each of its steps.
        rows: of the steps that are done.
        test: see `RunView`.
    """
    done = {row["step_id"]: row for row in rows}
    definition_steps: list[dict[str, Any]] = run["definition_steps"] or []
    missing: StepStatus = "pending" if run["completed_at"] is None else "skipped"
    pauses: dict[str, dict[str, Any]] = run["pauses"] or {}
    steps = [
        _paused_view(step, pauses[step["id"]], run["status"])
        if step["id"] in pauses and step["id"] not in done
        else _step_view(step, done.get(step["id"]), missing)
        for step in definition_steps
    ]
    ended = run["completed_at"] is not None
    return RunView(
        id=run["id"],
        workflow_id=run["automation_id"],
        workflow_name=run["name"],
        workflow_version=run["version"],
        status=run["status"],
        trigger=run["trigger"],
        input=run["input"],
        output=run["output"],
        error=run["error"],
        steps=steps,
        steps_total=len(steps),
        steps_completed=sum(step.status == "completed" for step in steps),
        credits_used=run["credits_used"] if ended else sum(step.credits_used for step in steps),
        started_at=run["started_at"],
        completed_at=run["completed_at"],
        duration_ms=_milliseconds(run["started_at"], run["completed_at"]),
        restarted_from=run["restarted_from"],
        test=test,
    )


def with_live_steps(view: RunView, live: Sequence[LiveStep]) -> RunView:
    """The run with its steps under way, where the rows do not know of them yet."""
    under_way = {step.step_id: step for step in live}
    steps = [
        step.model_copy(update=_live_fields(under_way[step.id]))
        if step.status == "pending" and step.id in under_way
        else step
        for step in view.steps
    ]
    return view.model_copy(update={"steps": steps})


def _live_fields(live: LiveStep) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "status": live.status, "attempts": live.attempts, "started_at": live.started_at
    }  # fmt: skip
    if live.until is not None:
        fields["output"] = {"until": live.until.isoformat()}
    return fields


def _paused_view(step: dict[str, Any], pause: dict[str, Any], run_status: RunStatus) -> StepView:
    return StepView(
        id=step["id"],
        type=step["type"],
        status="cancelled" if run_status == "cancelled" else "waiting",
        output={"until": pause["until"]},
        attempts=1,
        started_at=datetime.fromisoformat(pause["since"]),
    )


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
