"""The window of statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Invalid
from models.stats.entries import Grain
from models.stats.windows import divide

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "bucket", "count", "since"),
    [
        ("24h", "1h", 24, datetime(2026, 3, 3, 6, tzinfo=UTC)),
        ("1h", "1m", 60, datetime(2026, 3, 4, 4, 7, tzinfo=UTC)),
        ("90m", "1h", 2, datetime(2026, 3, 4, 4, tzinfo=UTC)),
        ("30d", "1d", 30, datetime(2026, 2, 3, tzinfo=UTC)),
        ("2h", "1d", 1, datetime(2026, 3, 4, tzinfo=UTC)),
    ],
)
def test_buckets_begin_at_whole_times_and_the_last_is_not_over(
    window: str, bucket: Grain, count: int, since: datetime
) -> None:
    divided = divide(window, bucket, NOW)
    assert (len(divided.starts), divided.since) == (count, since)
    assert divided.until - divided.width <= NOW < divided.until


@pytest.mark.parametrize(
    ("window", "bucket"), [("1h", "1m"), ("6h", "5m"), ("24h", "1h"), ("7d", "1h"), ("30d", "1d")]
)
def test_a_bucket_is_chosen_that_fits(window: str, bucket: str) -> None:
    assert divide(window, None, NOW).bucket == bucket


@pytest.mark.parametrize("window", ["", "1", "59m", "31d", "721h", "0h", "-1h", "1w", "1h ", "١h", "24H"])
def test_another_window_is_refused(window: str) -> None:
    with pytest.raises(Invalid) as refused:
        divide(window, None, NOW)
    assert [one.parameter for one in refused.value.errors] == ["window"]


def test_too_many_buckets_are_refused_with_what_would_fit() -> None:
    with pytest.raises(Invalid) as refused:
        divide("30d", "1m", NOW)
    [error] = refused.value.errors
    assert (error.parameter, error.message) == (
        "bucket",
        "43,200 buckets are more than 400: use bucket=1d, or a shorter window.",
    )


@given(st.integers(min_value=60, max_value=43_200), st.datetimes(min_value=datetime(2020, 1, 1)))
def test_no_window_is_longer_than_its_stored_minutes(minutes: int, at: datetime) -> None:
    divided = divide(f"{minutes}m", None, at.replace(tzinfo=UTC))
    assert len(divided.starts) <= 400
    assert divided.bucket in ("1h", "1d") or at.replace(tzinfo=UTC) - divided.since < timedelta(days=2)


@given(st.integers(min_value=60, max_value=43_200), st.datetimes(min_value=datetime(2020, 1, 1)))
def test_the_stored_slots_of_a_window_are_few_and_make_it_up(minutes: int, at: datetime) -> None:
    divided = divide(f"{minutes}m", None, at.replace(tzinfo=UTC))
    slots = sorted(divided.slots, key=lambda one: one.since)
    assert [slots[0].since, *(one.until for one in slots)] == [*(one.since for one in slots), divided.until]
    assert slots[0].since == divided.since
    widths = {"1m": 60, "5m": 300, "1h": 3600, "1d": 86_400}
    assert sum((one.until - one.since).total_seconds() / widths[one.grain] for one in slots) <= 31 + 2 * 38
    for one in slots:
        assert one.since.timestamp() % widths[one.grain] == one.until.timestamp() % widths[one.grain] == 0
        assert widths[one.grain] >= divided.width.total_seconds() or divided.bucket in ("1h", "1d")
