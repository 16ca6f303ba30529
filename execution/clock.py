"""The time by which runs go on: the database's, where the clock of this machine shows another.

What one worker has begun another goes on with: a delay, or the time that a step has left, ends once for all.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import logs

_log = logs.get(__name__)
# So much may clocks differ: to follow each moment of the other would have time go back now and then.
_TOLERATED = timedelta(seconds=1)
# How far the database's is ahead.
_ahead = timedelta()


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC) + _ahead


def compare(theirs: datetime, seconds: float) -> None:
    """Compare with the database's clock.

    Args:
        theirs: what that has shown.
        seconds: that asking took; of an answer that took long nobody knows when it was given.
    """
    global _ahead
    ahead = theirs - datetime.now(UTC) + timedelta(seconds=seconds / 2)
    if seconds < _TOLERATED.total_seconds() and abs(ahead - _ahead) > _TOLERATED:
        _ahead = ahead
        _log.warning("clock_differs", seconds=round(ahead.total_seconds(), 1))
