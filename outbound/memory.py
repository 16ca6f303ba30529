"""Room in memory for what outgoing calls bring in: a budget in bytes, and what a body takes of it."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from itertools import count
from typing import NamedTuple, Self

CALL_BYTES = 16 * 1024
_MEBIBYTE = 1024 * 1024
_LIMIT = 64 * _MEBIBYTE
# Large bodies leave this, so that calls with small ones go on whatever the large ones wait for.
_KEPT_FOR_CALLS = 8 * _MEBIBYTE

# What decoded JSON takes beside its text (64-bit CPython 3.11, orjson): an object or a list as such, each
# value behind a comma, each name. Measured on records, maps and lists, it is 0.9 to 1.9 times what they take,
# which is 4 to 24 times their text; more than they take for numbers, nulls and empty strings.
_JSON_BYTES = ((b"{", 128), (b"[", 64), (b",", 64), (b":", 32))
# One character outside of Latin-1 makes each character of its string up to this many bytes wide.
_WIDE = 4


class _Wish(NamedTuple):
    """One who waits. The oldest reservation is first."""

    number: int
    order: int
    size: int
    granted: asyncio.Future[None]
    room: Reservation


class MemoryBudget:
    """A process's room for outgoing calls and for what they brought in, until that is stored.

    A call takes 16 KiB to begin, and more while it reads. Without room it waits, the oldest call first. One
    call at a time, the oldest of those that wait, goes on over the limit: there is always one that comes to
    its end, and never more is taken than the limit and what one call needs.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        """Have `limit` bytes, of which growing calls leave 8 MiB, at most a quarter, to those that begin."""
        self._free = limit
        self._kept = min(_KEPT_FOR_CALLS, limit // 4)
        self._numbers = count()
        self._beginning: deque[_Wish] = deque()
        self._growing: list[_Wish] = []
        self._over: int | None = None

    @property
    def free(self) -> int:
        """The bytes that nobody has; below zero while a call is over the limit."""
        return self._free

    def reservation(self) -> Reservation:
        """Make a reservation, of nothing yet."""
        return Reservation(self, next(self._numbers))

    async def take(self, room: Reservation, size: int) -> None:
        """Give `room` so many bytes more, when there are. Only `room` itself asks for that."""
        if room.number == self._over:  # it never waits, least of all for older ones that wait for it
            self._free -= size
            room.size += size
            return
        granted = asyncio.get_running_loop().create_future()
        wish = _Wish(room.number, next(self._numbers), size, granted, room)
        if room.size + size <= CALL_BYTES:
            self._beginning.append(wish)
        else:
            heapq.heappush(self._growing, wish)
        self._grant()
        await granted

    def give_back(self, number: int, size: int, ended: bool) -> None:
        """Have bytes back of reservation `number`, which has none any more if it `ended`."""
        self._free += size
        if ended and number == self._over:
            self._over = None
        self._grant()

    def _grant(self) -> None:
        if self._free >= self._kept:
            self._over = None
        while self._beginning and (self._beginning[0].granted.done() or self._may_begin(self._beginning[0])):
            self._give(self._beginning.popleft())
        while self._growing and (self._growing[0].granted.done() or self._may_grow(self._growing[0])):
            self._give(heapq.heappop(self._growing))

    def _may_begin(self, wish: _Wish) -> bool:
        return wish.size <= self._free

    def _may_grow(self, wish: _Wish) -> bool:
        if wish.size <= self._free - self._kept:
            return True
        if self._over is None:
            self._over = wish.number
        return wish.number == self._over

    def _give(self, wish: _Wish) -> None:
        if not wish.granted.done():  # else its call was cancelled
            self._free -= wish.size
            wish.room.size += wish.size
            wish.granted.set_result(None)


class Reservation:
    """The room of one call: given back by `release`, at the end of a `with`, or with the object itself.

    Whoever keeps what the call brought in keeps this with it, and releases it when that is stored. With one
    in hand, wait for nothing that itself may wait for room.

    Attributes:
        number: smaller in older reservations.
        size: bytes.
    """

    def __init__(self, budget: MemoryBudget, number: int) -> None:
        self.number = number
        self.size = 0
        self._budget = budget
        self._loop = asyncio.get_running_loop()

    async def grow(self, size: int, clock: asyncio.Timeout | None = None) -> None:
        """Have at least `size` bytes. Waits for what is missing; `clock` stands still meanwhile."""
        if size <= self.size:
            return
        ends, since = clock and clock.when(), self._loop.time()
        if clock:
            clock.reschedule(None)
        await self._budget.take(self, size - self.size)
        if clock and ends is not None:
            clock.reschedule(ends + self._loop.time() - since)

    def shrink(self, size: int) -> None:
        """Have at most `size` bytes."""
        if size < self.size:
            freed, self.size = self.size - size, size
            self._budget.give_back(self.number, freed, size == 0)

    def release(self) -> None:
        """Give all back. Doing it again does nothing."""
        self.shrink(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

    def __del__(self) -> None:
        if self.size:
            # It can be dropped in any thread, and after the loop has ended.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._budget.give_back, self.number, self.size, True)


class BodyCost:
    """What a body takes in memory, decoded: found out piece by piece."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._length = self._nodes = 0
        self._width = 1

    @property
    def size(self) -> int:
        """The bytes for what has been read so far."""
        return self._length * self._width + self._nodes

    def add(self, piece: bytes) -> None:
        """Count another piece of the body."""
        self._length += len(piece)
        if self._json:
            self._nodes += sum(size * piece.count(sign) for sign, size in _JSON_BYTES)
        if not piece.isascii() or (self._json and b"\\u" in piece):
            self._width = _WIDE

    def expected(self, length: int) -> int:
        """The bytes for a body of `length`, if it goes on as it began, and an eighth more."""
        return max(self.size, self.size * length * 9 // (max(1, self._length) * 8))
