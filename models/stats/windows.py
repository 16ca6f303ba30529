"""The window of statistics, and its division into buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, get_args

from models.errors import FieldError, Invalid
from models.stats.entries import Grain

MOST_BUCKETS = 400
# Of buckets that nobody has chosen: fewer than this.
_CHOSEN_BUCKETS = 200
_SHORTEST, _LONGEST = timedelta(hours=1), timedelta(days=30)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_LONGEST_FIRST: tuple[Grain, ...] = get_args(Grain)[::-1]
_WINDOW = re.compile(r"([1-9]\d{0,5})([mhd])", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Slots(NamedTuple):
    """Stored slots of one length that follow each other."""

    grain: Grain
    since: datetime
    until: datetime


class Window(NamedTuple):
    """A time that is divided into buckets, of which the last one is not over yet.

    Attributes:
        width: of a bucket.
    """

    since: datetime
    until: datetime
    bucket: Grain
    width: timedelta

    @property
    def starts(self) -> list[datetime]:
        """The beginnings of all buckets."""
        count = (self.until - self.since) // self.width
        return [self.since + self.width * place for place in range(count)]

    @property
    def slots(self) -> list[Slots]:
        """The fewest stored slots that make up the window: days, and shorter ones before and after them."""
        return list(_split_into_slots(self.since, self.until, _LONGEST_FIRST))


def divide(window: str, bucket: Grain | None, now: datetime) -> Window:
    """Return the window that ends now, in buckets that begin at whole minutes, hours or days in UTC.

    Args:
        window: such as `90m`, `24h`, `7d`.
        bucket: None for the shortest of which there are fewer than 200.
        now: the present.

    Raises:
        Invalid: it is no window from an hour to 30 days, or would have more than 400 buckets.
    """
    match = _WINDOW.fullmatch(window)
    length = int(match[1]) * _UNITS[match[2]] if match else timedelta(0)
    if not _SHORTEST <= length <= _LONGEST:
        raise _out_of_range(parameter="window", message="Give a time from 1h to 30d, such as 24h.")
    if bucket is None:
        bucket = _first_with_at_most(length, _CHOSEN_BUCKETS)
    elif _count_buckets(length, bucket) > MOST_BUCKETS:
        fitting = _first_with_at_most(length, MOST_BUCKETS)
        message = (
            f"{_count_buckets(length, bucket):,} buckets are more than {MOST_BUCKETS}: use bucket={fitting},"
            " or a shorter window."
        )
        raise _out_of_range(parameter="bucket", message=message)
    width = _width_of(bucket)
    until = now - (now - _EPOCH) % width + width
    return Window(until - _count_buckets(length, bucket) * width, until, bucket, width)


def _split_into_slots(since: datetime, until: datetime, grains: Sequence[Grain]) -> Iterator[Slots]:
    width = _width_of(grains[0])
    first, last = since + (_EPOCH - since) % width, until - (until - _EPOCH) % width
    if first < last:
        yield Slots(grains[0], first, last)
    for rest in [(since, first), (last, until)] if first <= last else [(since, until)]:
        if rest[0] < rest[1]:
            yield from _split_into_slots(*rest, grains[1:])


def _first_with_at_most(length: timedelta, most: int) -> Grain:
    return next(bucket for bucket in get_args(Grain) if _count_buckets(length, bucket) <= most)


def _count_buckets(length: timedelta, bucket: Grain) -> int:
    return -(-length // _width_of(bucket))


def _width_of(bucket: Grain) -> timedelta:
    return int(bucket[:-1]) * _UNITS[bucket[-1]]


def _out_of_range(*, parameter: str, message: str) -> Invalid:
    return Invalid([FieldError("", "out_of_range", message, parameter=parameter)])
