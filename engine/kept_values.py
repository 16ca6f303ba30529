"""The values of runs at work: kept in memory as far as there is room, else read from their rows again."""

from __future__ import annotations

from typing import Any

import orjson

from language.records import INLINE_BYTES

# As JSON: decoded, records take 6 times as much memory, small objects 25 times.
MOST_BYTES = 4 * 1024 * 1024
# A run keeps this much in any case, so that the large values of others do not slow it down.
ALWAYS_BYTES = 1024


def size_of(value: Any) -> int:
    """Return the size of a value as JSON, in bytes; 0 for null."""
    return len(orjson.dumps(value)) if value is not None else 0


class KeptValues:
    """The values that a process keeps.

    Attributes:
        size: their size, in bytes of JSON.
        most: the highest size.
        largest: the highest size of one value.
    """

    def __init__(self, most: int = MOST_BYTES, largest: int = INLINE_BYTES) -> None:
        self.size = 0
        self.most = most
        self.largest = largest


class RunMemory:
    """The values that one run keeps. Release it when its carrier leaves the run.

    Attributes:
        largest: the highest size of one value, in bytes of JSON.
    """

    def __init__(self, values: KeptValues | None = None) -> None:
        """Keep nothing yet; `values`: those of the process, by default of this run alone."""
        self._values = values or KeptValues()
        self._size = 0
        self.largest = self._values.largest

    def keep(self, size: int) -> bool:
        """Keep a value of this size, in bytes of JSON; return False if there is no room for it."""
        if size > self.largest:
            return False
        if self._size + size > ALWAYS_BYTES and self._values.size + size > self._values.most:
            return False
        self._size += size
        self._values.size += size
        return True

    def drop(self, size: int) -> None:
        """Drop values of this size that were kept."""
        self._size -= size
        self._values.size -= size

    def release(self) -> None:
        """Drop all values."""
        self.drop(self._size)
