"""Separate what a source says for the first time from changes, so that it is told once. Pure.

The baseline of a field is the first value that was heard of it. So what a source adds when it is first heard
is no change, but for findings that have a date: what came into being after the monitor was made has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from models.monitors.snapshots import Said, Snapshot
from models.monitors.tolerances import moment_of


class Dating(NamedTuple):
    """Decides by its date whether a finding is newer than the monitor.

    Attributes:
        since: when the monitor was made; what is dated later is a change.
        dates: list of objects → the member that is its items' date; other field or block → the field that is.
    """

    since: datetime
    dates: Mapping[str, str]

    def is_new(self, date: Any) -> bool:
        """Tell whether something with this date came into being after the monitor was made."""
        moment = moment_of(date) if isinstance(date, str) else None
        return moment is not None and moment > self.since


class Addition(NamedTuple):
    """Holds what a source adds to a field when it is first heard.

    Attributes:
        new: dated findings, which are a change: items of a list, or the value; None if there are none.
        first: all else that is heard for the first time: alike.
    """

    new: Any
    first: Any


def first_words(before: Snapshot, after: Snapshot) -> Said:
    """Return what sources say now of fields that they have never said anything of, in their words.

    A source that speaks in another edition than before is left out: it is read anew, not heard first.
    """
    words: dict[str, Mapping[str, Any]] = {}
    for source, fields in after.said.items():
        old = before.said.get(source)
        if old is None:
            words[source] = fields
        elif before.editions.get(source) == after.editions.get(source):
            known = {path: fields[path] for path, value in old.items() if value is None and path in fields}
            words[source] = {path: value for path, value in known.items() if value is not None}
    return {source: fields for source, fields in words.items() if fields}


def divide(path: str, value: Any, detail: Mapping[str, Any], words: Said, dating: Dating | None) -> Addition:
    """Divide what first words add to a field into what is dated after the monitor's start, and the rest.

    Args:
        path: the dotted field.
        value: of it, with these words.
        detail: how that differs from the value without them, as `comparison.difference` tells it.
        words: the first words.
        dating: how findings are dated; None: nothing is.
    """
    if dating is None:
        return Addition(None, value)
    date = dating.dates.get(path)
    if not isinstance(value, list):
        date = date or dating.dates.get(path.partition(".")[0])
        is_new = any(dating.is_new(fields.get(date)) for fields in words.values() if date and path in fields)
        return Addition(value, None) if is_new else Addition(None, value)
    items = [*detail.get("added", ()), *(pair["new"] for pair in detail.get("changed", ()))]
    new = [item for item in items if date and dating.is_new(item.get(date))]
    return Addition(new or None, [item for item in items if item not in new] or None)


def speakers(words: Said, path: str) -> list[str]:
    """Return the sources that first say something of a field; all where it only follows from their words."""
    return [source for source, fields in words.items() if path in fields] or list(words)
