"""Turns: of each owner one piece of work at a time in this process, however many it asks for at once."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary


class Turns:
    """Locks by owner, which are there as long as somebody holds or awaits them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def of(self, owner: Hashable) -> asyncio.Lock:
        """The lock of `owner`, for an `async with`."""
        return self._locks.setdefault(owner, asyncio.Lock())
