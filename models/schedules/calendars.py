"""Calendars: the times at which a schedule is due."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count, islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

_STEPS = {"hourly": timedelta(hours=1)}
_DAYS = {"daily": 1, "weekly": 7, "biweekly": 14}
_MONTHS = {"monthly": 1, "quarterly": 3}
_SHORTEST = {"monthly": timedelta(days=28), "quarterly": timedelta(days=90)}
# The shortest distance of a cron appears within two hours after each minute. The rarest cron, 29 February on
# a certain weekday, is due at least twice in 80 years.
_SAMPLE, _SAMPLED = 121, timedelta(days=81 * 366)


@dataclass(frozen=True)
class Calendar:
    """The occurrences of a frequency or a period, which count from an anchor, or of a cron.

    docs/calendars.md has the rules for short months and for changes of the clock.

    Args:
        frequency: hourly, daily, weekly, biweekly, monthly or quarterly.
        cron: five fields in which `models.schedules.schedules.cron_errors` finds no errors.
        timezone: an IANA name; a period does not use it.
        anchor: the moment from which all but a cron count, aware; fractions of a second are dropped. It is
        not an
            occurrence itself, and nothing is due before it.
        every: a period, independent of changes of the clock.

    Raises:
        ValueError: unless one of frequency, cron and every is given, and the frequency is known.
    """

    frequency: str | None
    cron: str | None
    timezone: str
    anchor: datetime
    every: timedelta | None = None

    def __post_init__(self) -> None:
        if [self.frequency, self.cron, self.every].count(None) != 2:
            raise ValueError("a calendar has one of frequency, cron and every")
        if self.frequency is not None and self.frequency not in _STEPS | _DAYS | _MONTHS:
            raise ValueError(f"there is no frequency {self.frequency!r}")

    def next_after(self, moment: datetime) -> datetime:
        """Return the first occurrence after a moment.

        Args:
            moment: aware.

        Returns:
            A moment in UTC, in whole seconds, later than both the moment and the anchor.
        """
        # In UTC, because Python compares moments of the same zone by wall-clock time.
        anchor = self.anchor.astimezone(UTC)
        after = max(moment.astimezone(UTC), anchor)
        anchor = anchor.replace(microsecond=0)
        if self.cron is not None:
            times = CronSim(self.cron, after.astimezone(ZoneInfo(self.timezone)))
            # In a repeated hour, CronSim may return times of the first pass during the second one.
            return next(at for at in (time.astimezone(UTC) for time in times) if at > after)
        if step := self.every or _STEPS.get(self.frequency or ""):
            return anchor + ((after - anchor) // step + 1) * step
        return next(at for at in self._dates(anchor, after) if at > after)

    def following(self, moment: datetime, number: int) -> list[datetime]:
        """Return this many occurrences after a moment; as `next_after`."""
        times = [moment]
        for _ in range(number):
            times.append(self.next_after(times[-1]))
        return times[1:]

    def period(self) -> timedelta:
        """Return the shortest time between two occurrences, without changes of the clock.

        For a cron it is the shortest among the first 120 after the anchor; for months 28 days, for quarters
        90.
        """
        if self.cron is not None:
            return _least_distance(self.cron, self.anchor.astimezone(UTC))
        frequency = self.frequency or ""
        return (
            self.every
            or _STEPS.get(frequency)
            or _SHORTEST.get(frequency)
            or timedelta(days=_DAYS[frequency])
        )

    def _dates(self, anchor: datetime, after: datetime) -> Iterator[datetime]:
        """Yield the occurrences of a frequency of days or months, from one that is early enough."""
        zone = ZoneInfo(self.timezone)
        first, local = anchor.astimezone(zone).replace(tzinfo=None, fold=0), after.astimezone(zone)
        frequency = self.frequency or ""
        # Starts one occurrence early, because a skipped wall time may move to the next day.
        if months := _MONTHS.get(frequency):
            passed = ((local.year - first.year) * 12 + local.month - first.month) // months
            walls = (_months_later(first, number * months) for number in count(max(1, passed - 1)))
        else:
            days = _DAYS[frequency]
            passed = (local.date() - first.date()).days // days
            walls = (first + timedelta(days=number * days) for number in count(max(1, passed - 1)))
        # With fold 0, a skipped wall time has the offset before the change, and a repeated one is the first.
        return (wall.replace(tzinfo=zone).astimezone(UTC) for wall in walls)


@lru_cache(maxsize=1024)  # a rare cron takes 25 ms, and each chunk of a run needs this
def _least_distance(cron: str, start: datetime) -> timedelta:
    times = takewhile(lambda at: at < start + _SAMPLED, islice(CronSim(cron, start), _SAMPLE))
    return min(later - earlier for earlier, later in pairwise(times))


def _months_later(first: datetime, months: int) -> datetime:
    """Return the same day and time this many months later, or the last day of a shorter month."""
    years, month = divmod(first.month - 1 + months, 12)
    year = first.year + years
    return first.replace(year=year, month=month + 1, day=min(first.day, monthrange(year, month + 1)[1]))
