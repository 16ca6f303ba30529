"""The time by which runs advance: the database's, if the clock of this machine differs.

Several workers continue the same runs: a delay, or the remaining time of a step, must end at the same time
for all.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import logs

_log = logs.get(__name__)
# Smaller differences are ignored: following each of them would move the time backwards now and then.
_TOLERATED = timedelta(seconds=1)
# How far the database's clock is ahead.
_ahead = timedelta()


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC) + _ahead


def compare(theirs: datetime, seconds: float) -> None:
    """Compare the clock of this machine with the database's.

    Args:
        theirs: the time that the database returned.
        seconds: the duration of the query; a slow answer is ignored, because its exact time is unknown.
    """
    global _ahead
    ahead = theirs - datetime.now(UTC) + timedelta(seconds=seconds / 2)
    if seconds < _TOLERATED.total_seconds() and abs(ahead - _ahead) > _TOLERATED:
        _ahead = ahead
        _log.warning("clock_differs", seconds=round(ahead.total_seconds(), 1))
