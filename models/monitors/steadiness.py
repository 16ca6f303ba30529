"""The values from which verdicts are made: without movements within the tolerance. Pure.

A score that goes from 74 to 76 would move the level of a verdict, and back again the next day. Therefore each
number, date or text of a source that has a tolerance stands still for the verdict until it has moved by more,
in one step or in many: a level changes when its cause does.

A verdict reads dates by their age: the age of the last report, not its day, decides whether reports are old.
Therefore a date is compared, and held still, by its age when its source was heard. Otherwise yesterday's
report would look old at the next run of a monthly monitor, beside the report of that day.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from models.monitors.forms import ComparisonRule
from models.monitors.snapshots import Said, Snapshot
from models.monitors.tolerances import keep_age

Held = Mapping[str, Mapping[str, Any]]
"""Source → dotted field → the value that a verdict uses instead of the source's current one."""


def hold_still(before: Snapshot, after: Snapshot, forms: Mapping[str, ComparisonRule]) -> Held:
    """Find the values that have not moved by more than their tolerance since they last counted.

    Args:
        before: the last snapshot, with the values held still then.
        after: the new one.
        forms: field → the form of its values, for all fields with a tolerance, tracked or not.
    """
    held: dict[str, dict[str, Any]] = {}
    for source, fields in after.said.items():
        if source not in before.said or before.editions.get(source) != after.editions.get(source):
            continue
        times = before.heard[source], after.heard[source]
        former = {**before.said[source], **before.held.get(source, {})}
        still: dict[str, Any] = {}
        for path, value in fields.items():
            old = former.get(path)
            if path in forms and old != value:
                old = keep_age(old, *times)
                if _moves_within(old, value, forms[path]):
                    still[path] = old
        if still:
            held[source] = still
    return held


def _moves_within(old: Any, new: Any, form: ComparisonRule) -> bool:
    if old is None or new is None or old == new or isinstance(new, list) or not form.tolerance:
        return False
    return form.is_near(old, new)


def replace_held(said: Said, held: Held) -> Said:
    """Replace the words of sources by the values that are held still."""
    return {
        source: {path: held.get(source, {}).get(path, value) for path, value in fields.items()}
        for source, fields in said.items()
    }


def settle_former(words: Said, before: Snapshot, after: Snapshot) -> Said:
    """Replace the earlier words of sources by the values that the last verdict used.

    If the new verdict uses another value, a date keeps the age that it had.

    Args:
        words: the earlier words of the sources, in comparable form.
        before: the last snapshot.
        after: the new one, with the values held still.
    """
    settled = replace_held(words, before.held)
    return {
        source: {
            path: _settle(value, path, source, before.heard, after) if source in after.said else value
            for path, value in fields.items()
        }
        for source, fields in settled.items()
    }


def _settle(value: Any, path: str, source: str, heard: Mapping[str, datetime], after: Snapshot) -> Any:
    if path not in after.held.get(source, {}) and value == after.said[source].get(path):
        return value
    return keep_age(value, heard[source], after.heard[source])
