"""When a schedule is due, in zones whose clocks change in different ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.schedules.calendars import Calendar

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "UTC")
LONGEST = {
    "hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7),
    "biweekly": timedelta(days=14), "monthly": timedelta(days=31), "quarterly": timedelta(days=92),
}  # fmt: skip
# How far a change of clocks may move an occurrence: Apia skipped a whole day.
CHANGE = timedelta(days=1)


def wall(zone: str, text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def due(calendar: Calendar, after: datetime, number: int) -> list[str]:
    """So many occurrences, as moments of the calendar's zone with their offsets."""
    found: list[str] = []
    for _ in range(number):
        after = calendar.next_after(after)
        found.append(after.astimezone(ZoneInfo(calendar.timezone)).isoformat(" ", "minutes"))
    return found


# frequency, zone, anchor, the moment asked about → the occurrences after it.
BY_FREQUENCY = {
    "an hour is 3,600 seconds when clocks go forward": (
        "hourly", "Europe/Berlin", "2026-03-28 23:30", "2026-03-29 01:00",
        ["2026-03-29 01:30+01:00", "2026-03-29 03:30+02:00", "2026-03-29 04:30+02:00"],
    ),
    "an hour is 3,600 seconds when clocks go back by half of one": (
        "hourly", "Australia/Lord_Howe", "2026-04-04 23:00", "2026-04-05 00:30",
        ["2026-04-05 01:00+11:00", "2026-04-05 01:30+10:30", "2026-04-05 02:30+10:30"],
    ),
    "a day keeps its wall time when clocks go forward": (
        "daily", "Europe/Berlin", "2026-01-05 09:00", "2026-03-28 00:00",
        ["2026-03-28 09:00+01:00", "2026-03-29 09:00+02:00", "2026-03-30 09:00+02:00"],
    ),
    "a day keeps its wall time when clocks go back": (
        "daily", "America/New_York", "2026-01-05 09:00", "2026-10-31 00:00",
        ["2026-10-31 09:00-04:00", "2026-11-01 09:00-05:00", "2026-11-02 09:00-05:00"],
    ),
    "a time that clocks skip is an hour later, that day alone": (
        "daily", "Europe/Berlin", "2026-01-05 02:30", "2026-03-28 00:00",
        ["2026-03-28 02:30+01:00", "2026-03-29 03:30+02:00", "2026-03-30 02:30+02:00"],
    ),
    "a time that clocks skip is half an hour later where the gap is as short": (
        "daily", "Australia/Lord_Howe", "2026-01-05 02:15", "2026-10-03 12:00",
        ["2026-10-04 02:45+11:00", "2026-10-05 02:15+11:00"],
    ),
    "a time that clocks repeat is the first": (
        "daily", "Europe/Berlin", "2026-01-05 02:30", "2026-10-24 12:00",
        ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"],
    ),
    "a date that a zone skips is the next": (
        "daily", "Pacific/Apia", "2011-12-01 09:00", "2011-12-28 12:00",
        ["2011-12-29 09:00-10:00", "2011-12-31 09:00+14:00", "2012-01-01 09:00+14:00"],
    ),
    "a zone of half hours has no changes": (
        "daily", "Asia/Kolkata", "2026-01-05 09:00", "2026-03-28 12:00",
        ["2026-03-29 09:00+05:30", "2026-03-30 09:00+05:30"],
    ),
    "a week keeps its weekday": (
        "weekly", "America/New_York", "2026-01-05 09:00", "2026-03-03 00:00",
        ["2026-03-09 09:00-04:00", "2026-03-16 09:00-04:00"],
    ),
    "two weeks are 14 days whether or not clocks change": (
        "biweekly", "Europe/Berlin", "2026-03-16 09:00", "2026-03-16 09:00",
        ["2026-03-30 09:00+02:00", "2026-04-13 09:00+02:00"],
    ),
    "the 31st is the last day of shorter months, and the 31st again": (
        "monthly", "Europe/Berlin", "2026-01-31 09:00", "2026-01-31 09:00",
        ["2026-02-28 09:00+01:00", "2026-03-31 09:00+02:00", "2026-04-30 09:00+02:00"],
    ),
    "the 29th is there in February of a leap year": (
        "monthly", "UTC", "2027-11-29 00:00", "2028-02-01 00:00",
        ["2028-02-29 00:00+00:00", "2028-03-29 00:00+00:00"],
    ),
    "a month goes over the end of the year": (
        "monthly", "UTC", "2025-08-15 12:00", "2025-12-15 12:00",
        ["2026-01-15 12:00+00:00"],
    ),
    "a quarter is three months, its day kept as of a month": (
        "quarterly", "America/New_York", "2025-11-30 09:00", "2025-11-30 09:00",
        ["2026-02-28 09:00-05:00", "2026-05-30 09:00-04:00", "2026-08-30 09:00-04:00"],
    ),
    "nothing is due before the first period is over": (
        "weekly", "UTC", "2026-01-05 09:00", "2019-01-01 00:00",
        ["2026-01-12 09:00+00:00"],
    ),
    "an occurrence is not after itself": (
        "daily", "UTC", "2026-01-05 09:00", "2026-01-07 09:00",
        ["2026-01-08 09:00+00:00"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("frequency, zone, anchor, after, expected", BY_FREQUENCY.values(), ids=BY_FREQUENCY)
def test_a_frequency_counts_from_its_anchor(
    frequency: str, zone: str, anchor: str, after: str, expected: list[str]
) -> None:
    calendar = Calendar(frequency, None, zone, wall(zone, anchor))
    assert due(calendar, wall(zone, after), len(expected)) == expected


def test_an_anchor_in_an_hour_that_is_repeated_counts_by_its_wall_time() -> None:
    anchor = wall("Europe/Berlin", "2026-10-25 02:30").replace(fold=1)
    calendar = Calendar("monthly", None, "Europe/Berlin", anchor)
    assert due(calendar, wall("Europe/Berlin", "2029-03-01 00:00"), 1) == ["2029-03-25 03:30+02:00"]


@pytest.mark.parametrize(
    "every, expected",
    [
        (timedelta(minutes=45), ["2026-03-29 01:30+01:00", "2026-03-29 03:15+02:00"]),
        (timedelta(days=1), ["2026-03-29 23:30+02:00", "2026-03-30 23:30+02:00"]),
    ],
    ids=["45 minutes", "a day"],
)
def test_a_period_counts_from_its_anchor_whatever_clocks_do(every: timedelta, expected: list[str]) -> None:
    anchor = wall("Europe/Berlin", "2026-03-27 22:30")
    calendar = Calendar(None, None, "Europe/Berlin", anchor, every)
    assert due(calendar, wall("Europe/Berlin", "2026-03-29 01:00"), 2) == expected
    assert calendar.period() == every


# cron, zone, the moment asked about → the occurrences after it.
BY_CRON = {
    "at a wall time": (
        "0 9 * * MON-FRI", "Europe/Berlin", "2026-03-27 12:00",
        ["2026-03-30 09:00+02:00", "2026-03-31 09:00+02:00"],
    ),
    "a time that clocks skip is the first after the gap": (
        "30 2 * * *", "America/New_York", "2026-03-07 12:00",
        ["2026-03-08 03:00-04:00", "2026-03-09 02:30-04:00"],
    ),
    "a time that clocks repeat is the first": (
        "30 1 * * *", "America/New_York", "2026-10-31 12:00",
        ["2026-11-01 01:30-04:00", "2026-11-02 01:30-05:00"],
    ),
    "every half hour goes on in an hour that is repeated": (
        "*/30 * * * *", "Europe/Berlin", "2026-10-25 02:15",
        ["2026-10-25 02:30+02:00", "2026-10-25 02:00+01:00", "2026-10-25 02:30+01:00"],
    ),
    "the last day of a month": (
        "0 0 L * *", "Pacific/Apia", "2026-02-01 00:00",
        ["2026-02-28 00:00+13:00", "2026-03-31 00:00+13:00"],
    ),
    "the 29th of February": (
        "0 0 29 2 *", "UTC", "2026-01-01 00:00",
        ["2028-02-29 00:00+00:00", "2032-02-29 00:00+00:00"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("cron, zone, after, expected", BY_CRON.values(), ids=BY_CRON)
def test_a_cron_is_read_in_its_zone(cron: str, zone: str, after: str, expected: list[str]) -> None:
    calendar = Calendar(None, cron, zone, wall(zone, "2020-01-01 00:00"))
    assert due(calendar, wall(zone, after), len(expected)) == expected


def test_a_cron_does_not_go_back_to_the_first_of_two_equal_times() -> None:
    calendar = Calendar(None, "30 2 * * *", "Europe/Berlin", datetime(2026, 1, 1, tzinfo=UTC))
    second = wall("Europe/Berlin", "2026-10-25 02:15").replace(fold=1)
    assert due(calendar, second, 1) == ["2026-10-26 02:30+01:00"]


def test_a_cron_is_not_due_before_its_anchor() -> None:
    calendar = Calendar(None, "0 * * * *", "UTC", datetime(2026, 1, 1, 12, 0, tzinfo=UTC))
    assert due(calendar, datetime(2020, 1, 1, tzinfo=UTC), 1) == ["2026-01-01 13:00+00:00"]


@pytest.mark.parametrize("frequency", LONGEST)
def test_an_occurrence_is_in_whole_seconds_of_utc(frequency: str) -> None:
    calendar = Calendar(frequency, None, "Asia/Kolkata", datetime(2026, 1, 5, 9, 0, 7, 999_999, tzinfo=UTC))
    found = calendar.next_after(datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=UTC))
    assert (found.tzinfo, found.second, found.microsecond) == (UTC, 7, 0)


PERIODS = {
    "hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7),
    "biweekly": timedelta(days=14), "monthly": timedelta(days=28), "quarterly": timedelta(days=90),
    "*/5 * * * *": timedelta(minutes=5), "0,59 8-18 * * *": timedelta(minutes=1),
    "30 2 * * *": timedelta(days=1), "0 0 1,2,9 * *": timedelta(days=1), "0 0 1 1 *": timedelta(days=365),
    "0 0 29 2 *": timedelta(days=1461), "0 0 * 2 MON#5": timedelta(days=10_227),
}  # fmt: skip


@pytest.mark.parametrize("name, period", PERIODS.items())
def test_a_period_is_the_least_distance_while_clocks_do_not_change(name: str, period: timedelta) -> None:
    frequency, cron = (name, None) if name in LONGEST else (None, name)
    anchor = wall("Europe/Berlin", "2026-03-28 12:00")
    assert Calendar(frequency, cron, "Europe/Berlin", anchor).period() == period


@pytest.mark.parametrize("frequency, cron", [(None, None), ("daily", "0 9 * * *"), ("yearly", None)])
def test_a_calendar_has_one_known_rule(frequency: str | None, cron: str | None) -> None:
    with pytest.raises(ValueError):
        Calendar(frequency, cron, "UTC", datetime(2026, 1, 1, tzinfo=UTC))


moments = st.datetimes(datetime(1996, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))
parts = st.integers(0, 999).map(lambda thousandths: thousandths / 1000)


@given(st.sampled_from(sorted(LONGEST)), st.sampled_from(ZONES), moments, moments, parts)
def test_each_occurrence_of_a_frequency_follows_the_one_before(
    frequency: str, zone: str, anchor: datetime, moment: datetime, part: float
) -> None:
    calendar = Calendar(frequency, None, zone, anchor)
    first = calendar.next_after(moment)
    second = calendar.next_after(first)
    assert max(moment, anchor) < first < second <= first + LONGEST[frequency] + CHANGE
    assert calendar.next_after(first + part * (second - first)) == second


def is_skipped(local: datetime) -> bool:
    """Return whether clocks never show this wall time."""
    return local.astimezone(UTC).astimezone(local.tzinfo) != local


@given(st.sampled_from(sorted(LONGEST.keys() - {"hourly"})), st.sampled_from(ZONES), moments, moments)
def test_each_occurrence_has_the_wall_time_of_the_anchor_unless_clocks_skip_it(
    frequency: str, zone: str, anchor: datetime, moment: datetime
) -> None:
    found = Calendar(frequency, None, zone, anchor).next_after(moment).astimezone(ZoneInfo(zone))
    time = anchor.astimezone(ZoneInfo(zone)).time().replace(microsecond=0, fold=0)
    assert found.fold == 0
    assert found.time() == time or any(
        is_skipped(datetime.combine(day, time, ZoneInfo(zone)))
        for day in (found.date(), found.date() - timedelta(days=1))
    )


CRONS = (
    "*/5 * * * *",
    "30 * * * *",
    "30 2 * * *",
    "15,45 1-3 * * *",
    "0 0 L * *",
    "59 23 * * SUN",
    "*/20 2 * * *",
)


@given(st.sampled_from(CRONS), st.sampled_from(ZONES), moments, moments)
def test_the_occurrences_of_a_cron_increase(cron: str, zone: str, anchor: datetime, moment: datetime) -> None:
    calendar = Calendar(None, cron, zone, anchor)
    found = [max(moment, anchor)]
    for _ in range(5):
        found.append(calendar.next_after(found[-1]))
    assert all(earlier < later for earlier, later in pairwise(found))
