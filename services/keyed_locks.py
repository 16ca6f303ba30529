"""Locks by key, which bound the concurrent work of each owner in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary


class KeyedLocks:
    """Semaphores by owner, which exist as long as a task holds or awaits them."""

    def __init__(self, places: int = 1) -> None:
        self._places = places
        self._semaphores: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    def hold(self, owner: Hashable) -> asyncio.Semaphore:
        """Return the semaphore of `owner`; it is held within an `async with`."""
        return self._semaphores.setdefault(owner, asyncio.Semaphore(self._places))
