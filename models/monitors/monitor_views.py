"""Monitors as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field as Described

from models.lists.lists import TargetType
from models.monitors import sources
from models.monitors.sources import SourceView
from models.monitors.tolerances import effective_tolerances
from models.views import View

Frequency = Literal["hourly", "daily", "weekly", "biweekly", "monthly", "quarterly"]
ChangeDetection = Literal["diff_only", "full_refresh"]
Status = Literal["active", "paused"]


class MonitorView(View):
    """A monitor as the API shows it: without its targets."""

    id: UUID = Described(description="The monitor's id.")
    name: str = Described(description="What it is called.")
    status: Status = Described(description="Whether it runs by itself.")
    monitor_type: TargetType = Described(description="What its targets are.")
    frequency: Frequency | None = Described(description="How often it runs; null if `cron` says when.")
    cron: str | None = Described(description="When it runs; null if `frequency` says how often.")
    timezone: str = Described(description="The IANA zone in which these are read.")
    change_detection: ChangeDetection = Described(
        description="`diff_only`: an answer is kept where it has changed. `full_refresh`: of every run, and"
        " sources are asked anew each time."
    )
    tracked_fields: list[str] = Described(description="The fields that count; none: all of them.")
    ignored_fields: list[str] = Described(description="The fields that do not count.")
    tolerance: dict[str, float] = Described(
        description="Field → by how much it may move without a change, with the defaults: an amount for"
        " numbers, days for dates, words for texts; for arrays among how many known members they may rotate."
    )
    when: list[dict[str, Any]] = Described(
        description="Conditions on changes, of which one must be met; none: those of its list, or else every"
        " change is told."
    )
    retention_days: int = Described(description="How many days its runs and results are kept.")
    paused_reason: str | None = Described(
        description="Why the service has paused it: `list_deleted`; null if it has not."
    )
    data_source_type: Literal["inline", "list"] = Described(description="Where its targets are.")
    data_source_ref: UUID | None = Described(description="The list that it watches; null without one.")
    target_count: int = Described(description="How many targets it has now.")
    email_count: int = Described(description="The same as `target_count`, for older clients.")
    sources: list[SourceView] = Described(
        description="The sources of its tracked fields: when each was last heard, and which are silent."
    )
    warnings: list[dict[str, str]] = Described(
        default_factory=list[dict[str, str]],
        description="Which sources have its runs go at their pace (`slow_source`), need longer than its"
        " period (`short_period`), or are left out (`bulk_use`), each with `code` and `message`; told of a"
        " monitor alone.",
    )
    unseen_changes: int = Described(
        description="How many results with changes its ended runs have that nobody has marked as seen."
    )
    seen_run_id: UUID | None = Described(
        description="The newest run that was marked as seen, with all before it; null before."
    )
    seen_at: datetime | None = Described(description="When that was marked; null before.")
    last_run_at: datetime | None = Described(description="When a run of it last ended; null before.")
    next_run_at: datetime | None = Described(description="When it runs next; null while it is paused.")
    created_at: datetime = Described(description="When it was made.")
    updated_at: datetime = Described(description="When it was last changed.")


SHOWN = (
    "select m.*, l.target_count as listed, "
    + sources.VIEWS
    + " as sources from monitors m left join lists l on l.id = m.list_id"
    " where m.account_id = %s and m.deleted_at is null"
)
"""Selects the rows of an account's monitors for `view_of`."""


def view_of(row: dict[str, Any], kept_days: int) -> MonitorView:
    """Return the view of a row; `kept_days` is the retention of a monitor without its own."""
    count = row["target_count"] if row["list_id"] is None else row["listed"] or 0
    given: dict[str, Any] = {name: row[name] for name in MonitorView.model_fields if name in row}
    given |= {
        "tolerance": effective_tolerances(row["monitor_type"], row["tolerance"]),
        "retention_days": row["retention_days"] or kept_days,
        "data_source_type": "inline" if row["list_id"] is None else "list",
        "data_source_ref": row["list_id"],
        "unseen_changes": max(0, row["changed"] - row["seen_changed"]),
        "target_count": count,
        "email_count": count,
    }
    return MonitorView(**given)
