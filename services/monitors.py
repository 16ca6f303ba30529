"""Monitors, where they depend on the kinds of lookups: the fields, and the columns of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, get_args

import orjson

from language.findings import pointer_of, suggestion
from models.errors import Conflict, FieldError
from models.lists.lists import TargetType
from models.monitors.defaults import DEFAULTS
from models.monitors.fields import Known, find_unmatched, known_fields, watch
from models.monitors.monitor_views import MonitorView
from models.monitors.monitors import LockedMonitor, MonitorSettings
from models.monitors.results import Result
from models.schedules.calendars import Calendar
from models.schedules.schedules import cron_errors, timezone_errors
from providers.lookup.lookup import Lookups
from providers.registry import KINDS
from services.conditions import annotation_of, check_conditions
from services.pacing import warnings_of_monitor

_MOVABLE: tuple[Any, ...] = (int, float, str, int | None, float | None, str | None)
_MOVABLE_LISTS: tuple[Any, ...] = (list[str], list[str] | None)
_STATUS_COLUMNS = ("target", "has_changes", "changed_fields", "error", "silent")


def check_plan(type: TargetType, plan: MonitorSettings) -> list[FieldError]:
    """Return all errors in the settings of a monitor, except for its list.

    Args:
        type: the type of its targets.
        plan: the settings. A plan without frequency and cron has no errors in these.
    """
    fields = list(_field_errors(type, plan))
    conditions = [] if fields else check_conditions(type, plan.when, plan.tracked_fields, plan.ignored_fields)
    return [*_calendar_errors(plan), *fields, *conditions]


def _calendar_errors(plan: MonitorSettings) -> Iterator[FieldError]:
    if plan.frequency is not None and plan.cron is not None:
        yield FieldError("/cron", "one_schedule", "Give one of frequency and cron.")
    found = list(timezone_errors(plan.timezone, "/timezone"))
    if plan.cron is not None:
        found += cron_errors(plan.cron, "/cron")
    yield from (FieldError(*one) for one in found)


def _field_errors(type: TargetType, plan: MonitorSettings) -> Iterator[FieldError]:
    known = known_fields(KINDS[type].answer)
    tracked = list(_unknown("tracked_fields", plan.tracked_fields, type, known))
    ignored = list(_unknown("ignored_fields", plan.ignored_fields, type, known))
    yield from (*tracked, *ignored, *_tolerance_errors(plan.tolerance, type, known))
    if not tracked and not ignored and not watch(type, known, plan.tracked_fields, plan.ignored_fields):
        message = "Nothing is left that counts: ignore less, or track other fields."
        yield FieldError("/ignored_fields", "nothing_tracked", message)


def _unknown(place: str, patterns: Sequence[str], type: TargetType, known: Known) -> Iterator[FieldError]:
    found = {one.pattern: one.nearest for one in find_unmatched(dict.fromkeys(patterns), known)}
    blocks = dict.fromkeys(field.partition(".")[0] for field in known)
    for number, pattern in enumerate(patterns):
        if pattern in found:
            near = found[pattern]
            hint = f"Did you mean {near}?" if near else f"It has {', '.join(blocks)}."
            message = f"An answer of type {type} has no such field. {hint}"
            yield FieldError(f"/{place}/{number}", "unknown_field", message)


def _tolerance_errors(tolerance: Mapping[str, float], type: TargetType, known: Known) -> Iterator[FieldError]:
    movable = [*_movable_fields(type, known)]
    for name in tolerance:
        if name not in movable:
            defaults = ", ".join(DEFAULTS[type].tolerances)
            hint = suggestion(name, movable) or f" Those with a default: {defaults}."
            message = f"An answer of type {type} has no such field with a number, a text or texts.{hint}"
            yield FieldError(pointer_of(["tolerance", name]), "unknown_field", message)


def _movable_fields(type: TargetType, known: Known) -> Iterator[str]:
    """Yield the fields that can have a tolerance: numbers, texts, arrays of texts, members of objects."""
    for field, members in known.items():
        annotation = annotation_of(KINDS[type].answer, field)
        if members:
            (item,) = get_args(annotation)
            texts = (member for member in members if annotation_of(item, member) in _MOVABLE)
            yield from (f"{field}.{member}" for member in texts)
        elif annotation in (*_MOVABLE, *_MOVABLE_LISTS) and field not in DEFAULTS[type].clocks:
            yield field


def with_warnings(view: MonitorView, lookups: Lookups) -> MonitorView:
    """Add warnings about the sources that slow down the runs of a monitor."""
    calendar = Calendar(view.frequency, view.cron, view.timezone, view.created_at)
    chosen = view.monitor_type, view.tracked_fields, view.ignored_fields
    return view.model_copy(update={"warnings": warn(*chosen, calendar, view.target_count, lookups)})


def warn(
    type: TargetType,
    tracked: Sequence[str],
    ignored: Sequence[str],
    calendar: Calendar,
    count: int,
    lookups: Lookups,
) -> list[dict[str, str]]:
    """Return warnings about the sources that slow down the runs of a monitor, and about those left out.

    Args:
        type: the type of its targets.
        tracked: its `tracked_fields`.
        ignored: its `ignored_fields`.
        calendar: its schedule.
        count: the number of its targets.
        lookups: of this process.
    """
    fields = None
    if tracked or ignored:
        fields = watch(type, known_fields(KINDS[type].answer), tracked, ignored).keys()
    asked = lookups.select_sources(type, fields)
    return warnings_of_monitor(asked, count, calendar.period().total_seconds())


def require_own_targets(locked: LockedMonitor) -> None:
    """Refuse to change the targets of a monitor that watches a list.

    Raises:
        Conflict: it watches one; with its `list_id`.
    """
    list_id = locked.row["list_id"]
    if list_id is not None:
        message = f"The monitor watches the list {list_id}: add and remove targets there."
        raise Conflict("targets_in_list", message, list_id=str(list_id))


def columns(type: TargetType) -> list[str]:
    """Return the columns of a file of results: the target, its status, and the fields of its answer."""
    return [*_STATUS_COLUMNS, *known_fields(KINDS[type].answer)]


def row_of(result: Result, names: Sequence[str]) -> list[Any]:
    """Return a result as a row of a file.

    Args:
        result: the result.
        names: the columns, as `columns` returns them.
    """
    data: Any = orjson.loads(result.data or "null")
    error: Any = orjson.loads(result.error or "null")
    changed: list[str] = list(orjson.loads(result.changes or "{}"))
    told = error and f"{error['code']}: {error['message']}"
    fields = names[len(_STATUS_COLUMNS) :]
    silent = [one["source"] for one in orjson.loads(result.silent or "[]") if one["why"] != "not_set_up"]
    standing = [result.target, result.has_changes, changed, told, silent]
    return [*standing, *(_value(data, path) for path in fields)]


def _value(data: Any, path: str) -> Any:
    """Return the value of a dotted field; None if the answer, perhaps of an earlier release, has none."""
    for name in path.split("."):
        data = cast(dict[str, Any], data).get(name) if isinstance(data, dict) else None
    return data
