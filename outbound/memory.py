"""The memory of outgoing calls' answers: a budget in bytes, and the cost of a body."""

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
# Reserved from large bodies, so that calls with small ones proceed while large ones wait.
_KEPT_FOR_CALLS = 8 * _MEBIBYTE

# The memory of decoded JSON beside its text (64-bit CPython 3.11, orjson): of an object or a list, of each
# value behind a comma, of each name. Measured on records, maps and lists, the estimate is 0.9 to 1.9 times
# the real use, which is 4 to 24 times the text; it is too high for numbers, nulls and empty strings.
_JSON_BYTES = ((b"{", 128), (b"[", 64), (b",", 64), (b":", 32))
# One character outside of Latin-1 makes each character of its string up to this many bytes wide.
_WIDE = 4


class _Wish(NamedTuple):
    """A waiting request for memory. The oldest reservation is first."""

    number: int
    order: int
    size: int
    granted: asyncio.Future[None]
    room: Reservation


class MemoryBudget:
    """A process's memory for outgoing calls and their answers, until those are stored.

    A call takes 16 KiB to begin, and more while it reads. Without room it waits, the oldest call first. One
    call at a time, the oldest of the waiting ones, may exceed the limit. So one call can always finish, and
    the memory in use never exceeds the limit plus the need of one call.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        """Budget `limit` bytes; growing calls leave 8 MiB of it, at most a quarter, to beginning ones."""
        self._free = limit
        self._kept = min(_KEPT_FOR_CALLS, limit // 4)
        self._numbers = count()
        self._beginning: deque[_Wish] = deque()
        self._growing: list[_Wish] = []
        self._over: int | None = None

    @property
    def free(self) -> int:
        """Return the bytes that are free; negative while a call exceeds the limit."""
        return self._free

    def reservation(self) -> Reservation:
        """Make an empty reservation."""
        return Reservation(self, next(self._numbers))

    async def take(self, room: Reservation, size: int) -> None:
        """Add bytes to `room` once they are free. Only `room` itself calls this."""
        begins = room.size + size <= CALL_BYTES
        is_free = begins and not self._beginning and size <= self._free
        # The one over the limit never waits, least of all for older ones that wait for it.
        if is_free or room.number == self._over:
            self._free -= size
            room.size += size
            return
        granted = asyncio.get_running_loop().create_future()
        wish = _Wish(room.number, next(self._numbers), size, granted, room)
        if begins:
            self._beginning.append(wish)
        else:
            heapq.heappush(self._growing, wish)
        self._grant()
        await granted

    def give_back(self, number: int, size: int, ended: bool) -> None:
        """Return bytes of reservation `number` to the budget; `ended` if it keeps none."""
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
    """The memory of one call: returned by `release`, at the end of a `with`, or with the object itself.

    The holder of an answer keeps its reservation, and releases it when the answer is stored. While holding
    one, wait for nothing that itself may wait for memory.

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
        """Reserve at least `size` bytes. Waits for missing ones, while `clock` is stopped."""
        if size <= self.size:
            return
        ends, since = clock and clock.when(), self._loop.time()
        if clock:
            clock.reschedule(None)
        await self._budget.take(self, size - self.size)
        if clock and ends is not None:
            clock.reschedule(ends + self._loop.time() - since)

    def shrink(self, size: int) -> None:
        """Keep at most `size` bytes."""
        if size < self.size:
            freed, self.size = self.size - size, size
            self._budget.give_back(self.number, freed, size == 0)

    def release(self) -> None:
        """Return all bytes. A second call does nothing."""
        self.shrink(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

    def __del__(self) -> None:
        if self.size:
            # The object can be dropped in any thread, and after the loop has ended.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._budget.give_back, self.number, self.size, True)


class BodyCost:
    """The memory of a decoded body, estimated piece by piece."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._length = self._nodes = 0
        self._width = 1

    @property
    def size(self) -> int:
        """The bytes for the pieces so far."""
        return self._length * self._width + self._nodes

    def add(self, piece: bytes) -> None:
        """Count another piece of the body."""
        self._length += len(piece)
        if self._json:
            self._nodes += sum(size * piece.count(sign) for sign, size in _JSON_BYTES)
        if not piece.isascii() or (self._json and b"\\u" in piece):
            self._width = _WIDE

    def estimate(self, length: int) -> int:
        """Return the bytes for a body of `length` that continues as it began, plus an eighth."""
        return max(self.size, self.size * length * 9 // (max(1, self._length) * 8))
