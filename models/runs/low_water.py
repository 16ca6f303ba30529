"""Low-water marks: the time from which a queue can have work, so that claims skip rows claimed before.

Claimed rows stay in the index until no snapshot sees them any more, and a dump may hold one for hours. A mark
trails behind the last claim, because a row can be committed after one with a later time.

Marks cost a claim some probes of the index each, whether their queues have work or not. So they are used only
while claims without them read many rows of the index in vain.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from models.gates import NONE
from models.runs.claim_requests import Mark, Queue
from models.runs.run_work import Claim

_TRAIL, _LONG_TRAIL = timedelta(seconds=5), timedelta(seconds=60)
# How often the longer trail is used, and for how long marks are used before a claim goes without them again.
_LONG_SECONDS, _USED_SECONDS = 5.0, 60.0
# A claim that reads more rows of the index than these (some milliseconds' worth), and so many for each of its
# runs, reads dead ones.
_MANY_READ, _READ_A_RUN = 4096, 16
_MOST_QUEUES = 128
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class _Level:
    begun: datetime = _LONG_AGO
    new: datetime = _LONG_AGO
    claimed: int = 0


class LowWater:
    """The marks of the queues from which this process has claimed most."""

    def __init__(self) -> None:
        self._levels: dict[Queue, _Level] = {}
        self._long_at = self._used_until = 0.0

    def marks(self) -> list[Mark]:
        """Return the marks for the next claim: none, unless the last one without them read much in vain."""
        now = time.monotonic()
        if now >= self._used_until:
            return []
        trail = _TRAIL
        if now >= self._long_at:
            self._long_at, trail = now + _LONG_SECONDS, _LONG_TRAIL
        return [
            Mark(queue.priority, queue.account_id, one.begun - trail, one.new - trail)
            for queue, one in self._levels.items()
        ]

    def note_read(self, rows: int, runs: int) -> None:
        """Use marks for a while if a claim without them has read too many rows of the index for its runs."""
        now = time.monotonic()
        if now >= self._used_until and rows > _MANY_READ + _READ_A_RUN * runs:
            self._used_until, self._long_at = now + _USED_SECONDS, now + _LONG_SECONDS

    def note(self, claim: Claim) -> None:
        """Update the marks after a claim.

        Of each queue it took first the begun runs, then the others, by time.

        A queue with a gate has no mark: held runs come back to it with their original time.
        """
        for queue, found in claim.queues.items():
            if queue.gate != NONE:
                continue
            level = self._levels.setdefault(queue, _Level())
            level.claimed += found.runs
            level.begun = found.last_begun or claim.asked_at
            level.new = found.last_new or level.new
        while len(self._levels) > _MOST_QUEUES:
            del self._levels[min(self._levels, key=lambda queue: self._levels[queue].claimed)]
