"""A bounded number of places, of which no single owner can take all."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator


class ConcurrencyLimiter:
    """Whoever wants one waits; an owner whose share is taken waits without being in anybody's way."""

    def __init__(self, total: int) -> None:
        """Make `total` places. Half of them is the most that one owner has."""
        self._all = asyncio.Semaphore(total)
        self._share = max(1, total // 2)
        self._shares: dict[str, asyncio.Semaphore] = {}
        self._users = Counter[str]()

    @contextlib.asynccontextmanager
    async def taken(self, owner: str) -> AsyncGenerator[None]:
        """Have one for the time of the block."""
        self._users[owner] += 1
        try:
            async with self._shares.setdefault(owner, asyncio.Semaphore(self._share)), self._all:
                yield
        finally:
            self._users[owner] -= 1
            if not self._users[owner]:
                del self._users[owner], self._shares[owner]
