"""A bounded number of places, or of bytes, shared among their owners."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable


class Line:
    """The places that an owner holds, and the owner's waiting calls, in order."""

    def __init__(self) -> None:
        self.held = 0
        self.waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()

    @property
    def empty(self) -> bool:
        """Return whether the line can be removed."""
        return not self.held and not self.waiting

    async def wait(self, grant: Callable[[], None], give_up: Callable[[], None], size: int = 1) -> None:
        """Wait for this many places together.

        Args:
            grant: admits those whose turn it is.
            give_up: returns the places that were granted after the caller was cancelled.
            size: the number of places.
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
        """Grant the first waiting call its places; return their number, or 0 if no call waits."""
        while self.waiting:
            turn, size = self.waiting.popitem(last=False)
            if not turn.done():  # else it was just cancelled
                self.held += size
                turn.set_result(None)
                return size
        return 0


class Hold:
    """Holds a place for the block of an `async with`; on the path of each call, so it is no generator."""

    __slots__ = ("_release", "_take")

    def __init__(self, take: Callable[[], Awaitable[None]], release: Callable[[], None]) -> None:
        self._take = take
        self._release = release

    async def __aenter__(self) -> None:
        await self._take()

    async def __aexit__(self, *_error: object) -> None:
        self._release()


class ConcurrencyLimiter:
    """Semaphore whose owners get another place only while they hold fewer than remain free.

    A single owner thus gets half of the places, and the next owner half of the rest. As calls end, n greedy
    owners approach 1/(n+1) each. The rest stays free for owners that hold none, which need not wait for
    others' calls to end. A place that becomes free goes to the owner with the fewest, then to the one that
    has waited longest.

    A call that asks for several places gets them together, even if fewer are free. So no call waits for ever,
    and the places in use never exceed the total plus the size of one call.
    """

    def __init__(self, total: int) -> None:
        """Make `total` places."""
        self._free = total
        self._lines: dict[str, Line] = {}
        # The waiting owners, by the number of places that they hold, in order. A waiting owner holds at least
        # as many as are free, so there are few such owners, or few such numbers.
        self._waiting: dict[int, OrderedDict[str, None]] = {}

    def hold(self, owner: str, size: int = 1) -> Hold:
        """Hold one place, or `size` places (at least one), for the block of an `async with`."""
        return Hold(lambda: self._take(owner, size), lambda: self._release(owner, self._lines[owner], size))

    async def _take(self, owner: str, size: int) -> None:
        line = self._lines.get(owner)
        if line is None:
            line = self._lines[owner] = Line()
        if line.waiting or line.held >= self._free:
            try:
                await self._wait(owner, line, size)
            except asyncio.CancelledError:
                self._tidy(owner, line)
                raise
        else:
            self._free -= size
            line.held += size

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
        """Remove an owner from the waiting ones, and return whether it was among them."""
        owners = self._waiting.get(line.held)
        if owners is None or owner not in owners:
            return False
        del owners[owner]
        if not owners:
            del self._waiting[line.held]
        return True

    def _tidy(self, owner: str, line: Line) -> None:
        """Remove an owner that neither holds nor awaits places."""
        if not line.waiting:
            self._leave(owner, line)
        if line.empty:
            self._lines.pop(owner, None)
