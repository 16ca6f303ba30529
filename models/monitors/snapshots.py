"""Snapshots: for a target, the last answer of each source. Pure.

A source that is silent now (it failed, was limited, has stale or no data, or was not asked) counts with its
last answer. Therefore:

- A field has the value that the answer would have if every silent source repeated its last answer.
- If several sources contribute to a list or a count, the part of a silent source stays.
- The answer of a source that has answered counts as complete: what it leaves out no longer holds. If all
  sources
  of a field have answered and none fills it, the field is null. What it could not find out it says again.
- A source that has never answered has no part in the snapshot, nor has one that is switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from models.monitors.forms import ComparisonRule
from models.monitors.rotations import Rotation

Said = Mapping[str, Mapping[str, Any]]
"""Source → dotted field → its value in the source's words; None if the source could not find it out.

A source that answered that it knows nothing is present, without fields; a silent source is absent.
"""

Moments = Mapping[str, datetime]


@dataclass(frozen=True)
class Snapshot:
    """The knowledge about a target.

    Attributes:
        said: each source's last answer. A field is None if the source could never find it out.
        heard: source → the time of that answer.
        told: field → its last reported value, if it has moved since, within its tolerance.
        editions: source → the edition of its answer.
        older: source → field → when it was last found out, if that was before the source was heard.
        rotations: field → the members that it has had, if these have changed.
        held: source → field → the value that still stands in the verdict, see `steadiness`.
        measured: field → the value from which a condition measures, see `conditions`; if absent, the last
        one.
    """

    said: Said
    heard: Moments
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])
    editions: Mapping[str, str] = field(default_factory=dict[str, str])
    older: Mapping[str, Moments] = field(default_factory=dict[str, Moments])
    rotations: Mapping[str, Rotation] = field(default_factory=dict[str, Rotation])
    held: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    measured: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def found_out(self, source: str, path: str) -> datetime:
        """Return when a source last found out the value of a field."""
        return self.older.get(source, {}).get(path, self.heard[source])


def carry_over(last: Snapshot | None, said: Said, moment: datetime, editions: Mapping[str, str]) -> Snapshot:
    """Make the new snapshot of a target.

    Args:
        last: the snapshot before, if there is one.
        said: the words of the sources that have answered now.
        moment: the time of these answers.
        editions: source → its current edition, for all that are not switched off. The words of other
            sources are dropped.
    """
    spoken = {source: editions[source] for source in said}
    heard = dict.fromkeys(said, moment)
    if last is None:
        return Snapshot(said, heard, editions=spoken)
    silent = [source for source in last.said if source in editions and source not in said]
    words = {source: last.said[source] for source in silent}
    older = {source: last.older[source] for source in silent if source in last.older}
    for source, fields in said.items():
        missing = [path for path, value in fields.items() if value is None]
        if missing and last.editions.get(source) == spoken[source]:
            found = last.said[source]
            again = {path: found[path] for path in missing if path in found}
            fields = {path: value for path, value in fields.items() if value is not None} | again
            older[source] = {path: last.found_out(source, path) for path in missing}
        words[source] = fields
    return Snapshot(
        words,
        {source: last.heard[source] for source in silent} | heard,
        last.told,
        {source: last.editions[source] for source in silent} | spoken,
        older,
        last.rotations,
    )


def content_hash(said: Said, forms: Mapping[str, ComparisonRule]) -> bytes:
    """Return 32 bytes that are equal for snapshots with equal words of every source.

    Args:
        said: the words of the sources.
        forms: field → the form in which its values are compared, for all fields of the kind.
    """
    content = {
        source: {
            path: forms.get(path, _PLAIN).get_form(value).decode()
            for path, value in fields.items()
            if value != []
        }
        for source, fields in said.items()
    }
    return sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


_PLAIN = ComparisonRule()


def dump(snapshot: Snapshot) -> bytes:
    """Write a snapshot as JSON, for `load` to read."""
    # Most targets hold nothing still; an earlier release can read a snapshot without these parts, too.
    later = ("held", "measured")
    return orjson.dumps({name: part for name, part in vars(snapshot).items() if part or name not in later})


def load(stored: bytes) -> Snapshot:
    """Read a snapshot that `dump` has written."""
    parts: dict[str, Any] = orjson.loads(stored)
    # A later release, which may run beside this one for a while, may have further parts.
    parts = {name: part for name, part in parts.items() if name in Snapshot.__dataclass_fields__}
    parts["heard"] = _moments(parts["heard"])
    parts["older"] = {source: _moments(moments) for source, moments in parts["older"].items()}
    parts["rotations"] = {path: Rotation(**one) for path, one in parts.get("rotations", {}).items()}
    return Snapshot(**parts)


def _moments(texts: Mapping[str, str]) -> Moments:
    return {name: datetime.fromisoformat(text) for name, text in texts.items()}
