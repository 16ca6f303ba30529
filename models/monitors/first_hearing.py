"""First findings: separated from changes, and reported once. Pure.

The baseline of a field is the first value that was reported for it. Therefore the first findings of a source
are no changes, except for findings with a date after the creation of the monitor.
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
        since: when the monitor was created; a finding with a later date is a change.
        dates: list of objects → the member with its items' date; other field or block → the field with its
        date.
    """

    since: datetime
    dates: Mapping[str, str]

    def is_new(self, date: Any) -> bool:
        """Return whether this date is after the creation of the monitor."""
        moment = moment_of(date) if isinstance(date, str) else None
        return moment is not None and moment > self.since


class Addition(NamedTuple):
    """The first findings of a source for one field.

    Attributes:
        new: dated findings, which are a change: items of a list, or the value; None if there are none.
        first: the other findings, in the same form.
    """

    new: Any
    first: Any


def first_words(before: Snapshot, after: Snapshot) -> Said:
    """Return the words of sources on fields on which they have said nothing before.

    A source with another edition than before is left out: its data is read anew, not heard for the first
    time.
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
    """Divide the first findings for a field into those dated after the monitor's creation, and the rest.

    Args:
        path: the dotted field.
        value: its value with these words.
        detail: the difference from the value without them, from `comparison.difference`.
        words: the first words.
        dating: the dates of findings; None if findings have no dates.
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
    """Return the sources with first words on a field; all of them if the field only follows from these."""
    return [source for source, fields in words.items() if path in fields] or list(words)
