"""The room of runs in their process: for the values that they keep in memory, and for calls under way.

A value without room is read from its row. A call without room begins when another call of its run ends.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any
from uuid import UUID

import orjson

from language.records import INLINE_BYTES

# As JSON: decoded, records take 6 times as much memory, small objects 25 times.
MOST_BYTES = 4 * 1024 * 1024
# A call takes 14 KiB. Four times as many as there are places for outgoing calls.
MOST_CALLS = 2048
# A run keeps this much in any case, so that the large values of others do not slow it down.
ALWAYS_BYTES = 1024
_NOBODY = UUID(int=0)


def size_of(value: Any) -> int:
    """Return the size of a value as JSON, in bytes; 0 for null."""
    return len(orjson.dumps(value)) if value is not None else 0


class SharedRoom:
    """Room that accounts share: an account gets more only while it has less than is free.

    Attributes:
        most: the whole room.
        used: the part in use.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._of: Counter[UUID] = Counter()

    def left_for(self, account_id: UUID) -> int:
        """Return how much an account can take now."""
        return max(0, (self.most - self.used - self._of[account_id] + 1) // 2)

    def take(self, account_id: UUID, size: int) -> None:
        """Take room for an account, even if there is none; a negative size gives it back."""
        self.used += size
        self._of[account_id] += size
        if not self._of[account_id]:
            del self._of[account_id]


class ProcessRoom:
    """The room of all runs in a process.

    Attributes:
        values: the room for values, in bytes of JSON.
        calls: the room for calls under way.
        largest: the highest size of one value, in bytes of JSON.
    """

    def __init__(
        self, values: int = MOST_BYTES, calls: int = MOST_CALLS, largest: int = INLINE_BYTES
    ) -> None:
        self.values = SharedRoom(values)
        self.calls = SharedRoom(calls)
        self.largest = largest


class RunRoom:
    """The room of one run. Release it when its carrier leaves the run."""

    def __init__(
        self, process: ProcessRoom | None = None, account_id: UUID = _NOBODY, *, limits_calls: bool = True
    ) -> None:
        """Create it; by default the run is alone in its process.

        Args:
            process: the room of all runs.
            account_id: the run's owner.
            limits_calls: whether its carrier executes the calls in this process.
        """
        self._process = process or ProcessRoom()
        self._account_id = account_id
        self._limits_calls = limits_calls
        self._size = self._calls = 0

    @property
    def largest(self) -> int:
        """The highest size of one value, in bytes of JSON."""
        return self._process.largest

    def keep(self, size: int) -> bool:
        """Keep a value of this size, in bytes of JSON; return False if there is no room for it."""
        if size > self.largest:
            return False
        values = self._process.values
        if self._size + size > ALWAYS_BYTES and size > values.left_for(self._account_id):
            return False
        self.drop(-size)
        return True

    def drop(self, size: int) -> None:
        """Drop values of this size that were kept."""
        if size:
            self._size -= size
            self._process.values.take(self._account_id, -size)

    @property
    def calls(self) -> int:
        """The number of further calls that can begin now: at least one if none is under way."""
        if not self._limits_calls:
            return sys.maxsize
        return max(self._process.calls.left_for(self._account_id), 0 if self._calls else 1)

    def begin_calls(self, number: int) -> None:
        """Note that this many calls begin."""
        if number and self._limits_calls:
            self._calls += number
            self._process.calls.take(self._account_id, number)

    def end_calls(self, number: int = 1) -> None:
        """Note that this many calls have ended."""
        self.begin_calls(-number)

    def release(self) -> None:
        """Drop all values, and end all calls."""
        self.drop(self._size)
        self.end_calls(self._calls)
