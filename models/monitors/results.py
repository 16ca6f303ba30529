"""Results: the findings of a run for each target, read in pieces, with the answers in stored form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID, uuid5

import orjson
from pydantic import Field as Described

from database import Connection
from models.lists.lists import TargetType
from models.lookups.silence import NOT_PARTIAL
from models.monitors.sources import SilenceView
from models.views import View


class FieldChange(View):
    """The old and the new value of a field."""

    old: Any = Described(description="What it was.")
    new: Any = Described(description="What it is.")


class FirstHeard(View):
    """A value of a field that was heard for the first time."""

    value: Any = Described(description="What it is; of a list the items that are heard for the first time.")
    sources: list[str] = Described(description="Who says so.")


class ResultError(View):
    """The reason why a target could not be looked up."""

    code: str = Described(description="What went wrong, for programs: stable, snake_case.")
    message: str = Described(description="What went wrong.")


class FoundView(View):
    """The findings of a run for a target."""

    data: dict[str, Any] | None = Described(
        description="The target's whole answer. Where it could not be looked up, that of the last run that"
        " could; null if there was none."
    )
    changes: dict[str, FieldChange] | None = Described(
        description="By dotted field, what it was and is; null if nothing has changed, and the first time."
    )
    change_details: dict[str, dict[str, Any]] | None = Described(
        description="For the same fields since when, which sources say so, and which items were added,"
        " removed or changed; besides, once, for each set that was found to rotate its known members as"
        " `rotating`."
    )
    first_heard: dict[str, FirstHeard] | None = Described(
        description="By dotted field, what sources say of it that were never heard before: told once, and no"
        " change; null if there is nothing."
    )
    partial: bool = Described(
        description="Whether a source of a tracked field was not heard, for another reason than that it is"
        " `not_set_up` or left out for `bulk_use`."
    )
    silent: list[SilenceView] = Described(description="The sources of tracked fields that were not heard.")
    seen_at: datetime | None = Described(
        description="When its monitor's changes were last marked as seen, if these are among them; null if"
        " nobody has seen them, or nothing has changed."
    )
    error: ResultError | None = Described(description="Why it could not be looked up; null if it could.")


class ResultView(FoundView):
    """The findings of a run for a target, as one of its results."""

    id: UUID = Described(description="The result's id.")
    email: str = Described(description="The same as `target`, whatever its type.")
    target: str = Described(description="The target.")
    has_changes: bool = Described(description="Whether `changes` has any.")


class MonitoringResultView(ResultView):
    """The findings of a run of any monitor for a target."""

    run_id: UUID = Described(description="The run.")
    monitor_id: UUID = Described(description="Its monitor.")
    monitor_name: str = Described(description="What that is called now.")
    monitor_type: TargetType = Described(description="What its targets are.")
    completed_at: datetime | None = Described(description="When the run ended; null before.")


class PastResultView(FoundView):
    """The findings of one run for the target."""

    run_id: UUID = Described(description="The run.")
    completed_at: datetime = Described(description="When it ended.")


@dataclass(frozen=True)
class Result:
    """A result in its stored form: texts are JSON, and None is null."""

    run_id: UUID
    position: int
    target: str
    has_changes: bool
    changes: str | None
    details: str | None
    error: str | None
    silent: str | None
    first_heard: str | None
    data: str | None
    seen_at: datetime | None

    def to_found_view(self) -> dict[str, Any]:
        """Return the fields of a `FoundView`, for orjson."""
        return {
            "data": _json(self.data),
            "changes": _json(self.changes),
            "change_details": _json(self.details),
            "first_heard": _json(self.first_heard),
            "partial": any(one["why"] not in NOT_PARTIAL for one in orjson.loads(self.silent or "[]")),
            "silent": _json(self.silent or "[]"),
            "seen_at": self.seen_at,
            "error": _json(self.error),
        }

    def to_view(self) -> dict[str, Any]:
        """Return the fields of a `ResultView`, for orjson."""
        return {
            "id": uuid5(self.run_id, str(self.position)),
            "email": self.target,
            "target": self.target,
            "has_changes": self.has_changes,
            **self.to_found_view(),
        }


def _json(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)


FIELDS: LiteralString = (
    "r.run_id, r.position, r.target, r.has_changes, r.changes::text as changes, r.details::text as details,"
    " r.error::text as error, r.silent::text as silent,"
    " r.first_heard::text as first_heard, s.data, (select m.seen_at from monitors m where r.has_changes"
    " and m.id = r.monitor_id and m.seen_run_id >= r.run_id) as seen_at"
)
"""The fields of `Result`, from results `r` and answers `s`."""
ANSWERS: LiteralString = (
    "left join lateral (select data::text as data from monitor_snapshots s where s.monitor_id = r.monitor_id"
    " and s.target = r.target and s.run_id <= r.run_id order by s.run_id desc limit 1) s on true"
)
"""The answer of a result `r`: the newest snapshot that is not newer."""


async def read_after(
    connection: Connection, run_id: UUID, *, after: int, limit: int, changes_only: bool
) -> list[Result]:
    """Read results of a run in the order of its targets.

    Args:
        connection: inside or outside a transaction.
        run_id: a run that the caller may see.
        after: the position before the first result to read; -1 for the start.
        limit: the highest number of results.
        changes_only: leave out results without changes.
    """
    changed: LiteralString = " and r.has_changes" if changes_only else ""
    cursor = await connection.execute(
        "select " + FIELDS + " from monitor_results r " + ANSWERS + " where r.run_id = %(run_id)s"
        " and r.position > %(after)s" + changed + " order by r.position limit %(limit)s",
        {"run_id": run_id, "after": after, "limit": limit},
    )
    return [Result(**row) for row in await cursor.fetchall()]


async def list_some(
    connection: Connection, run_id: UUID, *, limit: int, offset: int, changes_only: bool
) -> list[Result]:
    """Return results of a run in the order of its targets, without the first `offset`."""
    changed: LiteralString = " and has_changes" if changes_only else ""
    # The answers of skipped results are not looked up.
    cursor = await connection.execute(
        "select " + FIELDS + " from (select * from monitor_results where run_id = %(run_id)s" + changed +
        " order by position limit %(limit)s offset %(offset)s) r " + ANSWERS + " order by r.position",
        {"run_id": run_id, "limit": limit, "offset": offset},
    )  # fmt: skip
    return [Result(**row) for row in await cursor.fetchall()]


async def list_past(
    connection: Connection, monitor_id: UUID, target: str, *, before: UUID | None, limit: int
) -> tuple[list[Mapping[str, Any]], UUID | None]:
    """Return the findings of a monitor's ended runs for a target, newest first.

    Args:
        connection: inside or outside a transaction.
        monitor_id: a monitor that the caller may see.
        target: in its normal form.
        before: only runs older than this one.
        limit: the highest number of results.

    Returns:
        The fields of `PastResultView`, for orjson; and the last run, if there are more.
    """
    older: LiteralString = "" if before is None else " and r.run_id < %(before)s"
    cursor = await connection.execute(
        "select " + FIELDS + ", e.completed_at from monitor_results r join monitor_runs e on e.id = r.run_id "
        + ANSWERS + " where r.monitor_id = %(monitor_id)s and r.target = %(target)s" + older +
        " and e.completed_at is not null order by r.run_id desc limit %(limit)s",
        {"monitor_id": monitor_id, "target": target, "before": before, "limit": limit + 1},
    )  # fmt: skip
    rows = await cursor.fetchall()
    past: list[Mapping[str, Any]] = []
    for row in rows[:limit]:
        completed_at = row.pop("completed_at")
        past.append({"run_id": row["run_id"], "completed_at": completed_at, **Result(**row).to_found_view()})
    return past, rows[limit - 1]["run_id"] if len(rows) > limit else None
