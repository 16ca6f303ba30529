"""The decision which requests pass a rate limit, for this process.

Requests that wait for a decision at the same moment are decided together, in one statement. A subject with a
full window is refused from memory, without SQL, until the window has room again.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass

from database import Database
from models import limits
from models.errors import RateLimited
from models.limits import Admission, Subject
from settings import Rate, Settings

_MOST_BLOCKED = 10_000
# Limits that count more than requests.
_REASONS = {
    "ingest": "Too many events, or too much work with them: where one takes more than 2 ms to check,"
    " each started 10 ms counts as one more."
}


@dataclass(frozen=True)
class Decision:
    """The decision that a request may pass.

    Attributes:
        name: of the limit.
        rate: of the limit.
        remaining: how many more may pass now.
        admission: the record in the log.
    """

    name: str
    rate: Rate
    remaining: int
    admission: Admission

    def headers(self) -> dict[str, str]:
        """Return the `RateLimit` headers for the decision."""
        return _headers(self.name, self.rate, self.remaining, self.admission.room_in)


@dataclass
class _Asked:
    rate: Rate
    waiting: list[asyncio.Future[tuple[int, Admission]]]


class Limiter:
    """Decides for this process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._asked: dict[Subject, _Asked] = {}
        self._blocked: dict[Subject, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def check(self, name: str, subject: str, *, remember: bool = True) -> Decision | None:
        """Count a request; return None if the limit is off.

        Args:
            name: of a setting `VEDETTE_LIMIT_<NAME>`, in lower case.
            subject: the subject that is counted.
            remember: refuse from memory until the window has room; not for requests that may be uncounted
                later.

        Raises:
            RateLimited: the window is full.
        """
        rate: Rate | None = getattr(self._settings, f"limit_{name}")
        if rate is None:
            return None
        left = self._blocked.get((name, subject), 0.0) - time.monotonic()
        if left > 0:
            raise _refusal(name, rate, left)
        place, admission = await self._ask((name, subject), rate)
        if place >= admission.admitted:
            if remember:
                self._block((name, subject), admission.room_in)
            raise _refusal(name, rate, admission.room_in)
        # Requests decided together share the remaining room, in the order they came.
        remaining = rate.requests - admission.used + (admission.admitted - 1 - place)
        return Decision(name, rate, max(0, remaining), admission)

    async def charge(self, name: str, subject: str, requests: int) -> Decision | None:
        """Count further requests, as the cost of one that has passed; return None if the limit is off.

        A count beyond the room of the window is dropped.
        """
        rate: Rate | None = getattr(self._settings, f"limit_{name}")
        if rate is None:
            return None
        async with self._database.connection() as connection:
            found = await limits.admit(connection, {(name, subject): (requests, rate)})
        admission = found[name, subject]
        return Decision(name, rate, max(0, rate.requests - admission.used), admission)

    def _ask(self, subject: Subject, rate: Rate) -> asyncio.Future[tuple[int, Admission]]:
        future: asyncio.Future[tuple[int, Admission]] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(subject, _Asked(rate, [])).waiting.append(future)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._decide(), name="limiter")
        return future

    async def _decide(self) -> None:
        """Decide for all waiting requests, and then for those that arrived meanwhile, until none waits."""
        while self._asked:
            asked, self._asked = self._asked, {}
            try:
                async with self._database.connection() as connection:
                    counts = {subject: (len(item.waiting), item.rate) for subject, item in asked.items()}
                    found = await limits.admit(connection, counts)
            except Exception as error:
                # Each waiting caller gets the error, and answers it.
                for future in (future for item in asked.values() for future in item.waiting):
                    if not future.done():
                        future.set_exception(error)
                continue
            for subject, item in asked.items():
                for place, future in enumerate(item.waiting):
                    if not future.done():
                        future.set_result((place, found[subject]))

    def _block(self, subject: Subject, seconds: float) -> None:
        if len(self._blocked) >= _MOST_BLOCKED:
            self._blocked.clear()
        self._blocked[subject] = time.monotonic() + seconds


def _refusal(name: str, rate: Rate, room_in: float) -> RateLimited:
    headers = _headers(name, rate, 0, room_in)
    return RateLimited(max(1, math.ceil(room_in)), headers, _REASONS.get(name, "Too many requests."))


def _headers(name: str, rate: Rate, remaining: int, room_in: float) -> dict[str, str]:
    return {
        "RateLimit-Policy": f'"{name}";q={rate.requests};w={rate.seconds}',
        "RateLimit": f'"{name}";r={remaining};t={math.ceil(room_in)}',
    }
