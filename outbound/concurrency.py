"""A bounded number of places, or of bytes, shared among those who ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable


class Line:
    """How many places one has, and who of his waits for one, in the order of asking."""

    def __init__(self) -> None:
        self.held = 0
        self.waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()

    @property
    def empty(self) -> bool:
        """Whether it can be forgotten."""
        return not self.held and not self.waiting

    async def wait(self, grant: Callable[[], None], give_up: Callable[[], None], size: int = 1) -> None:
        """Wait for so many places together.

        Args:
            grant: calls those whose turn it is.
            give_up: gives back the places that came when the caller had been cancelled.
            size: how many.
        """
        turn = asyncio.get_running_loop().create_future()
        self.waiting[turn] = size
        grant()
        try:
            await turn
        except asyncio.CancelledError:
            self.waiting.pop(turn, None)
            if not turn.cancelled():
                give_up()
            raise

    def call_next(self) -> int:
        """Give the first who waits the places that he wants. Returns how many; 0 if nobody waits any more."""
        while self.waiting:
            turn, size = self.waiting.popitem(last=False)
            if not turn.done():  # else it was cancelled a moment ago
                self.held += size
                turn.set_result(None)
                return size
        return 0


class ConcurrencyLimiter:
    """Places of which an owner gets more only while he has fewer than are free.

    So one owner alone has half of them, and the next half of the rest; as calls end, n greedy owners come to
    1/(n+1) each. What stays free is for owners who have none yet: they need not wait for others' calls to
    end. What comes free goes to the owner who has the fewest, then to the one who waits the longest.

    Who asks for several gets them together, though fewer be free: nobody waits for ever, and never is more
    taken than all places and what one call asks for.
    """

    def __init__(self, total: int) -> None:
        """Make `total` places."""
        self._free = total
        self._lines: dict[str, Line] = {}
        # The owners who wait, by the number of places that they have, in order. An owner who waits has at
        # least as many as are free: there are few such owners, or few such numbers.
        self._waiting: dict[int, OrderedDict[str, None]] = {}

    @contextlib.asynccontextmanager
    async def taken(self, owner: str, size: int = 1) -> AsyncGenerator[None]:
        """Have one, or so many (at least one), for the time of the block."""
        line = self._lines.setdefault(owner, Line())
        if line.waiting or line.held >= self._free:
            try:
                await self._wait(owner, line, size)
            except asyncio.CancelledError:
                self._tidy(owner, line)
                raise
        else:
            self._free -= size
            line.held += size
        try:
            yield
        finally:
            self._release(owner, line, size)

    async def _wait(self, owner: str, line: Line, size: int) -> None:
        def grant() -> None:
            self._waiting.setdefault(line.held, OrderedDict()).setdefault(owner)
            self._grant()

        await line.wait(grant, lambda: self._release(owner, line, size), size)

    def _release(self, owner: str, line: Line, size: int) -> None:
        waits = self._leave(owner, line)
        self._free += size
        line.held -= size
        if waits:
            self._waiting.setdefault(line.held, OrderedDict())[owner] = None
        self._tidy(owner, line)
        self._grant()

    def _grant(self) -> None:
        while self._waiting and (held := min(self._waiting)) < self._free:
            owner = next(iter(self._waiting[held]))
            line = self._lines[owner]
            self._leave(owner, line)
            self._free -= line.call_next()
            if line.waiting:
                self._waiting.setdefault(line.held, OrderedDict())[owner] = None

    def _leave(self, owner: str, line: Line) -> bool:
        """Take an owner out of those who wait, if he is there."""
        owners = self._waiting.get(line.held)
        if owners is None or owner not in owners:
            return False
        del owners[owner]
        if not owners:
            del self._waiting[line.held]
        return True

    def _tidy(self, owner: str, line: Line) -> None:
        """Forget an owner who wants nothing any more."""
        if not line.waiting:
            self._leave(owner, line)
        if line.empty:
            self._lines.pop(owner, None)
