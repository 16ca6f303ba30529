"""Durations in the buckets of a histogram, whose bounds grow by the square root of two.

Counts of buckets can be added up, over workflows and over time. A percentile is at most a fifth off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

UNKNOWN = 0
"""The bucket of runs without a duration, since they never began. Bucket 1 is up to one millisecond."""


def upper_bound(bucket: int) -> float:
    """Return the longest duration of a bucket, in milliseconds."""
    return 2 ** ((bucket - 1) / 2)


def bucket_of(milliseconds: float) -> int:
    """Return the bucket of a duration, as the stored function `count_runs_2` does."""
    return 1 + math.ceil(2 * math.log2(min(max(milliseconds, 1.0), 1e10)))


def estimate(counts: Mapping[int, int], share: float) -> int | None:
    """Return the duration that this share of the counted runs does not exceed; None without any.

    Args:
        counts: the number of runs by bucket.
        share: 0.5 for the median.

    Returns:
        Milliseconds, between the bounds of the bucket by the place of the run in it.
    """
    known = sorted((bucket, count) for bucket, count in counts.items() if bucket != UNKNOWN and count > 0)
    left = share * sum(count for _, count in known)
    for bucket, count in known:
        if left <= count:
            lower = upper_bound(bucket - 1) if bucket > 1 else 0.0
            return round(lower + (upper_bound(bucket) - lower) * left / count)
        left -= count
    return None
