"""What is known of a target: what each source said of it when it last answered. Pure.

A source that is silent now (it failed, was limited, has stale or no data, or was not asked) is taken to say
what it said last. So:

- A field has the value that the answer would have, had every silent source said again what it said last.
- Where several sources have a part in a list or a count, what only a silent source has named stays.
- A source that has answered is taken at its word, and what it leaves out it no longer says: when all sources
  of a field have answered and none fills it, the field is null.
- A source that has never answered has no part in the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from models.monitors.forms import Form

Said = Mapping[str, Mapping[str, Any]]
"""Source → dotted field → its value, as the source has it. A source that has answered that it knows nothing
is there, without fields; one that is silent is not."""


@dataclass(frozen=True)
class Snapshot:
    """What is known of a target.

    Attributes:
        said: what each source said when it last answered.
        heard: source → when that was.
        told: field → the number that was last told of it, where it has moved since, within its tolerance.
    """

    said: Said
    heard: Mapping[str, datetime]
    told: Mapping[str, float] = field(default_factory=dict[str, float])


def carry_over(last: Snapshot | None, said: Said, moment: datetime) -> Snapshot:
    """Make the new snapshot of a target.

    Args:
        last: the snapshot before, if there is one.
        said: what the sources say that have answered now.
        moment: when they did.
    """
    heard = dict.fromkeys(said, moment)
    if last is None:
        return Snapshot(said, heard)
    return Snapshot({**last.said, **said}, {**last.heard, **heard}, last.told)


def content_hash(said: Said, forms: Mapping[str, Form]) -> bytes:
    """32 bytes that are the same for snapshots in which every source says the same.

    Args:
        said: what the sources say.
        forms: field → how its values are compared, for all fields of the kind.
    """
    content = {
        source: {
            path: forms.get(path, _PLAIN).of(value).decode()
            for path, value in fields.items()
            if value is not None and value != []
        }
        for source, fields in said.items()
    }
    return sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


_PLAIN = Form()


def dump(snapshot: Snapshot) -> bytes:
    """Write a snapshot as JSON, for `load` to read."""
    return orjson.dumps(snapshot)


def load(stored: bytes) -> Snapshot:
    """Read a snapshot that `dump` has written."""
    parts: dict[str, Any] = orjson.loads(stored)
    parts["heard"] = {source: datetime.fromisoformat(moment) for source, moment in parts["heard"].items()}
    return Snapshot(**parts)
