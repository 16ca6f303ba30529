"""Runs of monitors as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field as Described

from models.lists.lists import TargetType
from models.monitors.sources import RunSilenceView
from models.views import View

RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
RunTrigger = Literal["schedule", "manual"]


class MonitorRunView(View):
    """A run of a monitor as the API shows it."""

    id: UUID = Described(description="The run's id.")
    monitor_id: UUID = Described(description="The monitor that it is a run of.")
    monitor_name: str = Described(description="What that is called now.")
    monitor_type: TargetType = Described(description="What its targets are.")
    status: RunStatus = Described(description="Where it stands.")
    trigger: RunTrigger = Described(description="What started it.")
    total_records: int = Described(description="How many targets it has.")
    processed_records: int = Described(description="How many of them are done, so far.")
    failed_records: int = Described(description="How many of those could not be looked up.")
    changes_detected: int = Described(description="How many of them have changed.")
    targets_partial: int = Described(
        description="How many of them have a result without some source of a tracked field."
    )
    first_heard_records: int = Described(
        description="Of how many of them something was heard for the first time, apart from changes."
    )
    sources_silent: list[RunSilenceView] = Described(
        description="The sources that were not heard of some target; told at the end."
    )
    skipped_runs: int = Described(
        description="How many times its monitor was due while it was under way, and was left out."
    )
    credits_used: int = Described(
        description="What it has cost so far: a credit for each of which something tracked was heard."
    )
    duration_ms: int | None = Described(description="From its start to its end, in milliseconds.")
    error: dict[str, Any] | None = Described(
        description="Why it failed, as `code` and `message`; null if it did not."
    )
    resumes_at: datetime | None = Described(
        description="Until when all that is left waits for sources over their limits; null if it does not."
    )
    started_at: datetime | None = Described(description="When it began; null before.")
    completed_at: datetime | None = Described(description="When it ended; null before.")


def view_of(row: Mapping[str, Any]) -> MonitorRunView:
    """Return the view of a run, from a row with its monitor's name."""
    start, end = row["started_at"], row["completed_at"]
    took = None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))
    shown: dict[str, Any] = {name: row[name] for name in MonitorRunView.model_fields if name in row}
    waits = end is None and row["resumes_at"] is not None and row["resumes_at"] > datetime.now(UTC)
    shown["resumes_at"] = row["resumes_at"] if waits else None
    return MonitorRunView(**shown, duration_ms=took, credits_used=row["heard_records"])
