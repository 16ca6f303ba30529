"""What a verdict rests on: what the sources say, without what has moved within its tolerance. Pure.

A score that goes from 74 to 76 would move the level of a verdict, and back again the next day. So each
number, date or text of a source that has a tolerance stands still for the verdict until it has moved by more,
in one step or in many: a level changes when its cause does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.monitors.forms import Form
from models.monitors.snapshots import Said, Snapshot

Held = Mapping[str, Mapping[str, Any]]
"""Source → dotted field → the value that stands in a verdict for the one that the source says."""


def hold_still(before: Snapshot, after: Snapshot, forms: Mapping[str, Form]) -> Held:
    """Find the values that have not moved by more than their tolerance since they last counted.

    Args:
        before: the last snapshot, with what was held still then.
        after: the new one.
        forms: field → how its values are compared, for all fields that have a tolerance, tracked or not.
    """
    held: dict[str, dict[str, Any]] = {}
    for source, fields in after.said.items():
        if source not in before.said or before.editions.get(source) != after.editions.get(source):
            continue
        former = {**before.said[source], **before.held.get(source, {})}
        still = {
            path: former[path]
            for path, value in fields.items()
            if path in forms and _moves_within(former.get(path), value, forms[path])
        }
        if still:
            held[source] = still
    return held


def _moves_within(old: Any, new: Any, form: Form) -> bool:
    if old is None or new is None or old == new or isinstance(new, list) or not form.tolerance:
        return False
    return form.is_near(old, new)


def replace_held(said: Said, held: Held) -> Said:
    """Put the values that are held still in the places of those that the sources say."""
    return {
        source: {path: held.get(source, {}).get(path, value) for path, value in fields.items()}
        for source, fields in said.items()
    }
