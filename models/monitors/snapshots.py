"""What is known of a target: what each source said of it when it last answered. Pure.

A source that is silent now (it failed, was limited, has stale or no data, or was not asked) is taken to say
what it said last. So:

- A field has the value that the answer would have, had every silent source said again what it said last.
- Where several sources have a part in a list or a count, what only a silent source has named stays.
- A source that has answered is taken at its word, and what it leaves out it no longer says: when all sources
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

from models.monitors.forms import Form
from models.monitors.rotations import Rotation

Said = Mapping[str, Mapping[str, Any]]
"""Source → dotted field → its value, as the source has it; None for what it could not find out. A source that
has answered that it knows nothing is there, without fields; one that is silent is not."""

Moments = Mapping[str, datetime]


@dataclass(frozen=True)
class Snapshot:
    """What is known of a target.

    Attributes:
        said: what each source said when it last answered. Of a field that is None it could never find out.
        heard: source → when that was.
        told: field → the value that was last told of it, where it has moved since, within its tolerance.
        editions: source → in which edition it spoke.
        older: source → field → when it was last found out, where that was before the source was heard.
        rotations: field → which members it has had, where these have changed.
        held: source → field → the value that still stands in the verdict, see `steadiness`.
        measured: field → the value from which a condition measures, see `conditions`; absent: the last one.
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
        """When a source last found out what it says of a field."""
        return self.older.get(source, {}).get(path, self.heard[source])


def carry_over(last: Snapshot | None, said: Said, moment: datetime, editions: Mapping[str, str]) -> Snapshot:
    """Make the new snapshot of a target.

    Args:
        last: the snapshot before, if there is one.
        said: what the sources say that have answered now.
        moment: when they did.
        editions: source → in which edition it speaks now, for all that are not switched off. What any other
            source has said is not said again.
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


def content_hash(said: Said, forms: Mapping[str, Form]) -> bytes:
    """32 bytes that are the same for snapshots in which every source says the same.

    Args:
        said: what the sources say.
        forms: field → how its values are compared, for all fields of the kind.
    """
    content = {
        source: {
            path: forms.get(path, _PLAIN).of(value).decode() for path, value in fields.items() if value != []
        }
        for source, fields in said.items()
    }
    return sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


_PLAIN = Form()


def dump(snapshot: Snapshot) -> bytes:
    """Write a snapshot as JSON, for `load` to read."""
    # Most targets hold nothing still; what is absent an earlier release can read, too.
    later = ("held", "measured")
    return orjson.dumps({name: part for name, part in vars(snapshot).items() if part or name not in later})


def load(stored: bytes) -> Snapshot:
    """Read a snapshot that `dump` has written."""
    parts: dict[str, Any] = orjson.loads(stored)
    # A later release, beside which this one goes on for a while, may have more to remember.
    parts = {name: part for name, part in parts.items() if name in Snapshot.__dataclass_fields__}
    parts["heard"] = _moments(parts["heard"])
    parts["older"] = {source: _moments(moments) for source, moments in parts["older"].items()}
    parts["rotations"] = {path: Rotation(**one) for path, one in parts.get("rotations", {}).items()}
    return Snapshot(**parts)


def _moments(texts: Mapping[str, str]) -> Moments:
    return {name: datetime.fromisoformat(text) for name, text in texts.items()}
