"""Low-water marks: from where on a lane can have work, so that a claim need not read what was claimed before.

Rows that were claimed stay in the index until no snapshot sees them any more, and a dump may hold one for
hours. A mark trails behind what was claimed last, as a row can be committed after one with a later time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from models.run_work import Claim, LaneMark

_TRAIL, _LONG_TRAIL = timedelta(seconds=5), timedelta(seconds=60)
# How often the longer trail is taken, and none at all.
_LONG_SECONDS, _IGNORED_SECONDS = 5.0, 60.0
_MOST_LANES = 128
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class _Lane:
    begun: datetime
    new: datetime
    claimed: int = 0


class LowWater:
    """The marks of the lanes that this process has claimed most from."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._long_at = self._ignored_at = 0.0

    def marks(self) -> list[LaneMark]:
        """The marks to claim with now; none at all once a minute."""
        now = time.monotonic()
        if now >= self._ignored_at:
            self._ignored_at, self._long_at = now + _IGNORED_SECONDS, now + _LONG_SECONDS
            return []
        trail = _TRAIL
        if now >= self._long_at:
            self._long_at, trail = now + _LONG_SECONDS, _LONG_TRAIL
        return [
            LaneMark(lane_id, lane.begun - trail, lane.new - trail) for lane_id, lane in self._lanes.items()
        ]

    def note(self, claim: Claim, rows: int) -> None:
        """Note what was claimed.

        Args:
            claim: in the order of the lane: first what had begun, each half by its time.
            rows: how many were asked for.
        """
        lane = self._lanes.setdefault(claim.lane_id, _Lane(_LONG_AGO, _LONG_AGO))
        lane.claimed += len(claim.runs)
        lane.begun = claim.last_begun or claim.asked_at
        if claim.last_new is not None:
            lane.new = claim.last_new
        elif claim.last_begun is None and len(claim.runs) < rows:
            lane.new = claim.asked_at
        if len(self._lanes) > _MOST_LANES:
            del self._lanes[min(self._lanes, key=lambda lane_id: self._lanes[lane_id].claimed)]
