"""The run object of the API: made of a run's row, its steps' rows, and the steps under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, ValidationError, model_validator

from language.delays import write_time
from language.progress import read_progress, steps_under_way
from language.records import FailedAttempt, LiveStep
from models.run_values import Omitted
from models.views import View

RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]
TriggerType = Literal[
    "manual", "webhook", "schedule", "file_upload", "monitor_event", "workflow", "on_failure"
]

_OMITTED = " Where there is no room for it, `{omitted: true, bytes, url}`: the URL has it."


class StepAttemptView(View):
    """An attempt at a step that has failed, and was to be followed by another."""

    attempt: int = Field(description="Which one, from 1.")
    at: datetime = Field(description="When it had failed; the same as `ended_at`.")
    error: dict[str, Any] = Field(description="Why, as `code` and `message`.")
    started_at: datetime | None = Field(
        default=None, description="When it began; null in runs of earlier releases."
    )
    ended_at: datetime = Field(description="When it had failed.")
    next_attempt_at: datetime | None = Field(
        default=None,
        description="When the next attempt was, or is, due; null in runs of earlier releases.",
    )

    @model_validator(mode="before")
    @classmethod
    def _add_end(cls, stored: dict[str, Any]) -> dict[str, Any]:
        return {"ended_at": stored.get("at"), **stored}


class StepView(View):
    """One step of the run object of the API."""

    id: str = Field(description="The step's id.")
    type: str = Field(description="Its type.")
    status: StepStatus = Field(description="Where it stands.")
    input: Any = Field(
        default=None,
        description="What it was given: of a webhook the request, of a lookup the target." + _OMITTED,
    )
    output: Any = Field(
        default=None, description="What later steps can read; null if there is none." + _OMITTED
    )
    error: dict[str, Any] | None = Field(
        default=None, description="Why it failed, as `code` and `message`; null if it did not."
    )
    attempts: int = Field(default=0, description="How often it was tried.")
    attempt_log: list[StepAttemptView] = Field(
        default=[],
        description="What became of the attempts before the last one, of a step without `for_each`.",
    )
    attempt_started_at: datetime | None = Field(
        default=None,
        description="When its last attempt began, or the one that is under way; null before it, between two"
        " attempts, and where that is not known.",
    )
    duration_ms: int | None = Field(default=None, description="From its start to its end, in milliseconds.")
    credits_used: int = Field(default=0, description="What its answer cost.")
    started_at: datetime | None = Field(default=None, description="When it began; null before.")
    completed_at: datetime | None = Field(default=None, description="When it ended; null before.")
    items_total: int | None = Field(
        default=None, description="How many items it had, if it has `for_each` and has ended; else null."
    )
    items_failed: int | None = Field(default=None, description="How many of these failed.")
    performed_by: Literal["activity", "shift"] | None = Field(
        default=None,
        description="What took the run forward then: an activity of its own workflow, or a worker's shift.",
    )
    mocked: bool = Field(
        default_factory=bool,
        exclude_if=lambda mocked: not mocked,
        description="True in a dry run, where its output is the mock that it was given; else absent.",
    )

    def values(self) -> tuple[Any, Any]:
        """Return its input and its output."""
        return self.input, self.output


class Takeovers(View):
    """The times that a worker was lost with the run, and another went on with it."""

    count: int = Field(description="How often.")
    last_at: datetime = Field(description="When last.")


class RunHead(View):
    """The fields that every run object of the API has."""

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
    items_total: int | None = Field(
        description="How many items its steps with `for_each` had that have ended; null if there is none."
    )
    items_failed: int | None = Field(description="How many of these failed.")
    credits_used: int = Field(
        description="What the ledger has for it so far; a lookup that a cancel came upon may still add to it."
    )
    queued_at: datetime | None = Field(default=None, description="When it was accepted; null for a dry run.")
    started_at: datetime | None = Field(description="When it began; null before.")
    completed_at: datetime | None = Field(description="When it ended; null before.")
    duration_ms: int | None = Field(description="From its start to its end, in milliseconds.")
    restarted_from: UUID | None = Field(description="The run that this one is a retry of.")
    parent_run_id: UUID | None = Field(
        default=None, description="The run that has this one as a step, or whose failure it follows."
    )
    takeovers: Takeovers | None = Field(
        default_factory=lambda: None,
        exclude_if=lambda takeovers: takeovers is None,
        description="How often a worker was lost with it, so that another took it over; absent if none was.",
    )
    carrier: Literal["workflow", "shift"] | None = Field(
        default=None,
        description="What takes it forward now: a Temporal workflow of its own, or a worker's shift.",
    )
    test: bool = Field(default=False, description="Whether it was a dry run, of which nothing is kept.")


class RunView(RunHead):
    """The run object of the API. It has 4 MiB at most: larger values are `Omitted`."""

    input: Any = Field(description="The event: what expressions read as `trigger`." + _OMITTED)
    output: Any = Field(description="The output of the last completed step in list order." + _OMITTED)
    steps: list[StepView] = Field(description="Its steps, in list order.")
    resume_urls: dict[str, str] | None = Field(
        default=None,
        description="Where to post the answers of the steps that wait, or are to wait, by step: who has one"
        " can do so. Only where this one run is asked for or watched, while it goes on.",
    )

    def is_whole(self) -> bool:
        """Return whether no value is left out."""
        values = [self.input, self.output, *(value for step in self.steps for value in step.values())]
        return not any(isinstance(value, Omitted) for value in values)


def view_of(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, test: bool = False) -> RunView:
    """Return the run object.

    Args:
        run: the row of the run, the `name` of its workflow, and as `definition_steps` the `id` and `type`
            of each of its steps.
        rows: the rows of the finished steps.
        test: see `RunView`.
    """
    steps = _steps_of(run, rows)
    counts: dict[str, Any] = {
        "steps_total": len(steps),
        "steps_completed": sum(step.status == "completed" for step in steps),
        "items_total": _sum_known(step.items_total for step in steps),
        "items_failed": _sum_known(step.items_failed for step in steps),
    }
    view = RunView(
        **head_fields(run),
        **counts,
        test=test,
        input=run["input"],
        output=run["output"],
        steps=steps,
    )
    # Live steps are added to a cancelled run, too: its cancellation leaves no records of steps under way.
    return view if run["status"] in ("completed", "failed") else with_live_steps(view, _under_way(run))


def _sum_known(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def head_fields(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `RunHead`, without counts, from a run's row and its workflow's `name`."""
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
        "duration_ms": _milliseconds(run["started_at"], run["completed_at"]),
        "queued_at": run.get("queued_at"),
        "takeovers": _takeovers(run),
        "carrier": run.get("carrier"),
    }


def _takeovers(run: Mapping[str, Any]) -> Takeovers | None:
    count = run.get("takeovers", 0)
    return Takeovers(count=count, last_at=run["taken_over_at"]) if count else None


def _steps_of(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[StepView]:
    done = {row["step_id"]: row for row in rows}
    missing: StepStatus = "pending" if run["completed_at"] is None else "skipped"
    return [_step_view(step, done.get(step["id"]), missing) for step in run["definition_steps"] or ()]


def _under_way(run: Mapping[str, Any]) -> list[LiveStep]:
    """Return the steps that have begun and are not done; none if another build wrote the progress."""
    try:
        return steps_under_way(read_progress(run["progress"]))
    except ValidationError:
        return []


def with_live_steps(view: RunView, live: Sequence[LiveStep]) -> RunView:
    """Add the steps under way to a run, if they have no rows yet; they are cancelled if the run has ended."""
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
    fields["attempt_log"] = _attempts(live.attempt_log)
    fields["attempt_started_at"] = live.attempt_began if live.attempt_log else live.started_at
    if live.until is not None and cancelled_at is None:
        fields["output"] = {"until": write_time(live.until)}
    if cancelled_at is not None:
        took = _milliseconds(live.started_at, cancelled_at)
        fields |= {"status": "cancelled", "completed_at": cancelled_at, "duration_ms": took}
    return fields


def _attempts(log: Iterable[FailedAttempt]) -> list[StepAttemptView]:
    return [StepAttemptView.model_validate(one.model_dump(exclude_none=True)) for one in log]


def _step_view(step: dict[str, Any], row: Mapping[str, Any] | None, missing: StepStatus) -> StepView:
    if row is None:
        return StepView(id=step["id"], type=step["type"], status=missing)
    return StepView(
        id=step["id"],
        type=step["type"],
        attempt_started_at=log[-1].get("next_started_at")
        if (log := row["attempt_log"])
        else row["started_at"],
        duration_ms=_milliseconds(row["started_at"], row["completed_at"]),
        **{name: row[name] for name in row if name in StepView.model_fields},
    )


def _milliseconds(start: datetime | None, end: datetime | None) -> int | None:
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))
