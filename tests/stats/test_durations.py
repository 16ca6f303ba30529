"""Durations in a histogram of few buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from database import Database
from models.stats.durations import bucket_of, estimate, upper_bound


@given(st.floats(min_value=0, max_value=1e10))
def test_a_duration_is_within_the_bounds_of_its_bucket(milliseconds: float) -> None:
    bucket = bucket_of(milliseconds)
    assert milliseconds <= upper_bound(bucket) * (1 + 1e-9)
    assert bucket == 1 or milliseconds >= upper_bound(bucket - 1) * (1 - 1e-9)


@given(st.lists(st.integers(min_value=1, max_value=10**9), min_size=1, max_size=200))
def test_an_estimate_is_at_most_a_factor_of_the_square_root_of_two_off(durations: list[int]) -> None:
    counts: dict[int, int] = {}
    for one in durations:
        counts[bucket_of(one)] = counts.get(bucket_of(one), 0) + 1
    for share in (0.5, 0.95):
        exact = sorted(durations)[max(0, -(-int(share * 1000) * len(durations) // 1000) - 1)]
        found = estimate(counts, share)
        assert found is not None and exact / 1.42 - 1 <= found <= exact * 1.42 + 1


def test_runs_that_never_began_have_no_duration() -> None:
    assert estimate({0: 5}, 0.5) is None
    assert estimate({}, 0.5) is None
    assert estimate({0: 500, bucket_of(1000): 2}, 0.5) == pytest.approx(1000, rel=0.3)


async def test_the_database_puts_a_duration_into_the_same_bucket(database: Database) -> None:
    given_ms = [-5.0, 0.0, 0.5, 1.0, 1.5, 3.0, 10.0, 99.0, 1e3, 3.6e6, 1e9, 1e11]
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select duration_bucket_1(ms * interval '1 millisecond') as bucket,"
            " duration_bucket_1(null) as none from unnest(%s::float8[]) ms",
            (given_ms,),
        )
        rows = await cursor.fetchall()
    assert [row["bucket"] for row in rows] == [bucket_of(ms) for ms in given_ms]
    assert rows[0]["none"] == 0
