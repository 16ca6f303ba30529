"""Any window of a limit's length holds at most its number of requests: the statement against a model."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from database import Connection, Database
from models import limits
from models.limits import CELLS, EXACT_REQUESTS, Admission, Subject
from settings import Rate

START = datetime(2026, 11, 23, tzinfo=UTC)
TICK = timedelta(microseconds=1)
EXACT, CELLED = Rate(5, 60), Rate(EXACT_REQUESTS + 10, 60)
examples = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
moments = st.lists(
    st.one_of(
        st.sampled_from([0, 1, 59_999_999, 60_000_000]), st.integers(0, 2_000_000), st.integers(0, 90_000_000)
    ).map(lambda microseconds: timedelta(microseconds=microseconds)),
    min_size=1,
    max_size=40,
)


class Subjects:
    """One subject whose requests come at moments that the test chooses."""

    def __init__(self, connection: Connection, rate: Rate) -> None:
        self.connection, self.rate = connection, rate
        self.subject: Subject = ("test", uuid4().hex)
        self.log: list[tuple[datetime, int]] = []

    async def admit(self, requests: int, now: datetime | None) -> Admission:
        asked = {self.subject: (requests, self.rate)}
        return (await limits.admit(self.connection, asked, now))[self.subject]

    async def ask(self, requests: int, now: datetime) -> int:
        admission = await self.admit(requests, now)
        self.log.append((now, admission.admitted))
        return admission.admitted

    def held(self, now: datetime, seconds: float | None = None) -> int:
        """Return how many requests were admitted in the window that ends now."""
        first = now - timedelta(seconds=self.rate.seconds if seconds is None else seconds)
        return sum(count for moment, count in self.log if first < moment <= now)


@given(gaps=moments, data=st.data())
@examples
async def test_a_small_limit_admits_exactly_what_the_window_has_room_for(
    database: Database, gaps: list[timedelta], data: st.DataObject
) -> None:
    async with database.connection() as connection:
        subject, now = Subjects(connection, EXACT), START
        for gap in gaps:
            now += gap
            asked = data.draw(st.integers(1, 8))
            room = EXACT.requests - subject.held(now)
            assert await subject.ask(asked, now) == min(asked, room)


@given(gaps=moments, data=st.data())
@examples
async def test_a_large_limit_never_admits_more_and_waits_one_cell_longer_at_most(
    database: Database, gaps: list[timedelta], data: st.DataObject
) -> None:
    async with database.connection() as connection:
        subject, now = Subjects(connection, CELLED), START
        for gap in gaps:
            now += gap
            asked = data.draw(st.integers(1, 2 * CELLED.requests))
            surely = CELLED.requests - subject.held(now, CELLED.seconds * (1 + 1 / CELLS))
            admitted = await subject.ask(asked, now)
            assert min(asked, surely) <= admitted <= asked
            assert subject.held(now) <= CELLED.requests


@given(gaps=moments, data=st.data())
@examples
async def test_requests_given_back_make_room_and_no_others(
    database: Database, gaps: list[timedelta], data: st.DataObject
) -> None:
    rate = data.draw(st.sampled_from([EXACT, CELLED]))
    async with database.connection() as connection:
        subject, now = Subjects(connection, rate), START
        admissions: list[Admission] = []
        for gap in gaps:
            now += gap
            if admissions and data.draw(st.booleans()):
                one = admissions.pop(data.draw(st.integers(0, len(admissions) - 1)))
                await limits.give_back(connection, subject.subject, one.moment)
            admission = await subject.admit(1, now)
            if admission.admitted:
                admissions.append(admission)
            counted = [one for one in admissions if one.moment > now - timedelta(seconds=rate.seconds)]
            assert admission.used == len(counted)


@pytest.mark.parametrize("rate", [EXACT, CELLED], ids=["exact", "cells"])
@given(gaps=moments)
@examples
async def test_a_full_window_says_when_the_next_request_is_admitted(
    database: Database, gaps: list[timedelta], rate: Rate
) -> None:
    async with database.connection() as connection:
        subject, now = Subjects(connection, rate), START
        for gap in gaps[:10]:
            now += gap
            await subject.ask(max(1, rate.requests // 3), now)
        refusal = await subject.admit(rate.requests, now)
        assert refusal.used == rate.requests
        then = now + timedelta(seconds=refusal.room_in)
        assert (await subject.admit(1, then - 2 * TICK)).admitted == 0
        assert (await subject.admit(1, then + 2 * TICK)).admitted == 1


async def test_a_burst_over_the_end_of_a_minute_gets_no_second_minutes_worth(database: Database) -> None:
    async with database.connection() as connection:
        subject = Subjects(connection, Rate(60, 60))
        admitted = [
            await subject.ask(count, START + timedelta(seconds=second))
            for second, count in ((0, 1), (57, 59), (60, 60), (60.8, 60))
        ]
    assert admitted == [1, 59, 1, 0]


async def test_a_clock_that_goes_back_makes_no_room(database: Database) -> None:
    async with database.connection() as connection:
        subject = Subjects(connection, Rate(2, 60))
        given = [(0, 1), (30, 1), (60.01, 1), (59.99, 1), (60.02, 1), (90, 1)]
        admitted = [await subject.ask(count, START + timedelta(seconds=at)) for at, count in given]
    assert admitted == [1, 1, 1, 0, 0, 1]


async def test_a_limit_that_is_lowered_admits_nothing_until_the_window_holds_less(database: Database) -> None:
    async with database.connection() as connection:
        subject = Subjects(connection, Rate(10, 60))
        for second in range(10):
            await subject.ask(1, START + timedelta(seconds=second))
        subject.rate = Rate(3, 60)
        refusal = await subject.admit(1, START + timedelta(seconds=10))
        assert (refusal.admitted, refusal.room_in) == (0, 57)


async def test_a_log_has_as_many_entries_as_its_window_needs(database: Database) -> None:
    async with database.connection() as connection:
        subject = Subjects(connection, Rate(100_000, 60))
        for number in range(1000):
            await subject.ask(1, START + timedelta(seconds=number / 10))
        cursor = await connection.execute(
            "select cardinality(moments) as size, pg_column_size(w.*) as bytes from rate_windows w"
            " where subject = %s",
            (subject.subject[1],),
        )
        row = await cursor.fetchone()
    assert row is not None
    assert row["size"] <= CELLS + 1
    assert row["bytes"] <= 2_100


async def test_processes_that_ask_at_once_fill_no_window_over_its_number(database: Database) -> None:
    rate = Rate(20, 1)
    subject: Subject = ("test", uuid4().hex)

    async def hammer() -> list[datetime]:
        admitted: list[datetime] = []
        async with database.connection() as connection:
            for _ in range(400):
                found = (await limits.admit(connection, {subject: (1, rate)}))[subject]
                admitted += [found.moment] * found.admitted
        return admitted

    log = sorted(moment for one in await asyncio.gather(*(hammer() for _ in range(4))) for moment in one)
    assert len(log) >= rate.requests
    crowded = [
        first
        for first, last in zip(log, log[rate.requests :], strict=False)
        if last - first < timedelta(seconds=rate.seconds)
    ]
    assert crowded == []
