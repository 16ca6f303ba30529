"""The form of changes in events and in the runs of workflows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import orjson


def with_items(
    changes: Mapping[str, Mapping[str, Any]], details: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return each change as `old`, `new`, and the list items `added` and `removed`.

    The items are empty if the field is no list.
    """
    told: dict[str, dict[str, Any]] = {}
    for path, change in changes.items():
        detail = details.get(path, {})
        items = {name: detail.get(name, []) for name in ("added", "removed")}
        told[path] = {"old": change["old"], "new": change["new"], **items}
    return told


def count_fitting(items: Iterable[Any], most_bytes: int) -> int:
    """Count how many of the first items fit into this many bytes of JSON together."""
    sizes = accumulate(len(orjson.dumps(item)) for item in items)
    return sum(size <= most_bytes for size in sizes)
