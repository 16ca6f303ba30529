"""Conditions that decide which changes are reported. Pure.

Without conditions every change is reported; otherwise a change must meet one of them. Most conditions look at
the new value of a field: `above`, `below`, `becomes`, and for texts `contains` and `matches`. In a list they
look at the items that were added or changed. `crosses` and `changes_by` compare the old value with the new
one. `changes_by` measures from the last reported value, so that many small steps are noticed, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, cast, get_args

from models.monitors.comparison import Change, Comparison, difference, is_measured_anew
from models.monitors.fields import Watch
from models.monitors.forms import ComparisonRule, Fold, canonical
from models.monitors.snapshots import Snapshot
from models.monitors.tolerances import distance, is_number, moment_of

Operator = Literal["above", "below", "crosses", "changes_by", "contains", "matches", "becomes"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)


class Condition(NamedTuple):
    """A condition on changes.

    Attributes:
        field: dotted, or a member of the objects in a list.
        operator: the test of its change.
        value: the value to compare with.
    """

    field: str
    operator: Operator
    value: Any


def read_conditions(stored: Iterable[Mapping[str, Any]]) -> list[Condition]:
    """Read conditions in their stored form: `{"field": "threat.abuse_score", "above": 50}`."""
    return [
        Condition(one["field"], operator, one[operator])
        for one in stored
        for operator in OPERATORS
        if operator in one
    ]


def keep_wanted(
    before: Snapshot | None, comparison: Comparison, watch: Watch, conditions: Sequence[Condition]
) -> Comparison:
    """Drop the changes that meet none of the conditions, if there are conditions.

    Args:
        before: the snapshot before.
        comparison: with all changes.
        watch: the fields that the monitor watches.
        conditions: those of the monitor, or of its list.
    """
    after = comparison.snapshot
    if not conditions or before is None:
        return replace(comparison, snapshot=replace(after, measured={})) if after.measured else comparison
    anew = is_measured_anew(before, after)
    measured = {} if anew else {path: one for path, one in before.measured.items() if path in watch}
    wanted: dict[str, Change] = {}
    for path, change in (comparison.changes or {}).items():
        own = [one for one in conditions if is_about(one.field, path)]
        first = measured.pop(path, change["old"])
        long = {"old": first, "new": change["new"]}
        if any(one.operator == "changes_by" and _is_met(one, path, long, watch[path]) for one in own):
            wanted[path] = long
        elif any(one.operator != "changes_by" and _is_met(one, path, change, watch[path]) for one in own):
            wanted[path] = change
        elif not anew and any(one.operator == "changes_by" for one in own):
            measured[path] = first
    told = [path for path in comparison.details if any(is_about(one.field, path) for one in conditions)]
    details = {
        path: {**comparison.details[path], **_items_of(wanted.get(path), watch[path])}
        for path in told
        if path in wanted or path not in (comparison.changes or {})
    }
    snapshot = replace(after, measured=measured)
    return replace(comparison, changes=wanted or None, details=details, snapshot=snapshot)


def _items_of(change: Change | None, form: ComparisonRule) -> dict[str, Any]:
    return (difference(**change, form=form) or {}) if change else {}


def is_about(field: str, path: str) -> bool:
    """Return whether a condition is on this dotted field, or on a member of its objects."""
    return field == path or field.startswith(f"{path}.")


def _is_met(condition: Condition, path: str, change: Change, form: ComparisonRule) -> bool:
    old, new = change["old"], change["new"]
    if not isinstance(old, list) and not isinstance(new, list):
        return _holds(condition, old, new, form.fold)
    member = condition.field[len(path) + 1 :]
    items = difference(old, new, form) or {"added": [], "removed": [], "changed": []}
    if member:
        fold = form.members.get(member, str)
        return any(_holds(condition, *pair, fold) for pair in _members(items, member))
    if condition.operator == "becomes":
        return form.exact.get_form(new or []) == form.exact.get_form(condition.value or [])
    if condition.operator == "changes_by":
        return sum(map(len, items.values())) >= condition.value
    come = [*items["added"], *(pair["new"] for pair in items["changed"])]
    return any(_holds(condition, None, text, form.fold) for item in come for text in _texts(item))


def _members(items: Mapping[str, Any], member: str) -> Iterator[tuple[Any, Any]]:
    """Yield the old and the new value of a member, for added and changed objects."""
    yield from ((None, item.get(member)) for item in items["added"])
    for pair in items["changed"]:
        old, new = pair["old"].get(member), pair["new"].get(member)
        if old != new:
            yield old, new


def _texts(item: Any) -> Iterator[str]:
    """Yield the texts in an item of a list: the item itself, or those of an object, at any depth."""
    if isinstance(item, str):
        yield item
    elif isinstance(item, (dict, list)):
        parts = cast("Iterable[Any]", item.values() if isinstance(item, dict) else item)
        for part in parts:
            yield from _texts(part)


def _holds(condition: Condition, old: Any, new: Any, fold: Fold) -> bool:
    """Return whether the change from `old` to `new` meets the condition."""
    wanted = condition.value
    match condition.operator:
        case "above":
            return _compare_values(new, wanted) == 1
        case "below":
            return _compare_values(new, wanted) == -1
        case "crosses":
            sides = [_compare_values(one, wanted) for one in (old, new)]
            return None not in sides and (sides[0] == -1) != (sides[1] == -1)
        case "changes_by":
            moved = distance(old, new)
            return moved is not None and moved >= wanted
        case "becomes":
            return canonical(new, fold) == canonical(wanted, fold)
        case "contains":
            return any(str(wanted).casefold() in text.casefold() for text in _texts(new))
        case "matches":
            return any(fnmatchcase(text.casefold(), str(wanted).casefold()) for text in _texts(new))


def _compare_values(value: Any, wanted: Any) -> int | None:
    """Return -1, 0 or 1 for a number or a date below, at or above another; None if not comparable."""
    if is_number(value) and is_number(wanted):
        first, second = value, wanted
    elif isinstance(value, str) and isinstance(wanted, str):
        first, second = moment_of(value), moment_of(wanted)
    else:
        return None
    if first is None or second is None:
        return None
    return (first > second) - (first < second)
