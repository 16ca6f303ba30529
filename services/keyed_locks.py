"""Turns: of each owner so many pieces of work at a time in this process, however many it asks for at once."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary


class Turns:
    """Semaphores by owner, which are there as long as somebody holds or awaits them."""

    def __init__(self, places: int = 1) -> None:
        self._places = places
        self._semaphores: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, owner: Hashable) -> asyncio.Semaphore:
        """The semaphore of `owner`, for an `async with`."""
        return self._semaphores.setdefault(owner, asyncio.Semaphore(self._places))
