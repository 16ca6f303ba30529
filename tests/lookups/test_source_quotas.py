"""How often sources are asked: windows that hold, a fifth for who cannot wait, and turns for the others."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from database import Connection, Database
from models.lookups import source_quotas
from models.lookups.lookups import AllProvidersFailed
from models.lookups.provider_states import Admission
from models.lookups.source_quotas import share_of_waiting
from providers.lookup.questions import LookupOptions
from providers.lookup.waiter import Waiter
from settings import Rate
from tests.lookups.conftest import World, spec
from tests.stacks import eventually

START = datetime(2026, 11, 23, tzinfo=UTC)
TICK = timedelta(microseconds=1)
SMALL = (Rate(3, 1), Rate(5, 4), Rate(9, 60))
LARGE = (Rate(2, 1), Rate(130, 60))
DAY = 86_400
examples = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
gaps = st.lists(
    st.one_of(
        st.sampled_from([0, 1, 999_999, 1_000_000, 3_999_999, 4_000_000, 60_000_000]),
        st.integers(0, 1_500_000),
        st.integers(0, 30_000_000),
    ).map(lambda microseconds: timedelta(microseconds=microseconds)),
    min_size=1,
    max_size=40,
)


class Bucket:
    """One bucket whose requests come at moments that the test chooses."""

    def __init__(self, connection: Connection, *rates: Rate) -> None:
        self.connection, self.rates = connection, rates
        self.name = uuid4().hex
        self.log: list[datetime] = []

    async def ask(self, now: datetime | None, account_id: UUID | None = None) -> Admission:
        admission = await source_quotas.admit(
            self.connection, self.name, self.name, self.rates, account_id, now
        )
        if admission.admitted and now is not None:
            self.log.append(now)
        return admission

    def used(self, now: datetime, rate: Rate) -> int:
        """Return how many requests there were in the window that ends now."""
        return sum(now - timedelta(seconds=rate.seconds) < moment <= now for moment in self.log)


@given(gaps=gaps, data=st.data())
@examples
async def test_a_request_goes_out_exactly_when_all_windows_have_a_place_for_its_caller(
    database: Database, gaps: list[timedelta], data: st.DataObject
) -> None:
    async with database.connection() as connection:
        bucket, now, account_id = Bucket(connection, *SMALL), START, uuid4()
        for gap in gaps:
            now += gap
            waits = data.draw(st.booleans())
            most = [share_of_waiting(rate) if waits else rate.requests for rate in SMALL]
            free = all(bucket.used(now, rate) < one for rate, one in zip(SMALL, most, strict=True))
            assert (await bucket.ask(now, account_id if waits else None)).admitted == free


@given(gaps=gaps)
@examples
async def test_a_large_window_never_holds_more_than_its_number(
    database: Database, gaps: list[timedelta]
) -> None:
    rate = Rate(125, 60)
    async with database.connection() as connection:
        bucket, now = Bucket(connection, rate), START
        for gap in gaps:
            now += gap
            for _ in range(10):
                await bucket.ask(now)
            assert bucket.used(now, rate) <= rate.requests


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("rates", [SMALL, LARGE], ids=["exact", "cells"])
@given(gaps=gaps)
@examples
async def test_a_refusal_says_when_a_place_is_free_for_its_caller(
    database: Database, gaps: list[timedelta], rates: tuple[Rate, ...], waits: bool
) -> None:
    account_id = uuid4() if waits else None
    async with database.connection() as connection:
        bucket, now = Bucket(connection, *rates), START
        for gap in gaps[:10]:
            now += gap
            await bucket.ask(now, account_id)
        refusal = await bucket.ask(now, account_id)
        while refusal.admitted:
            refusal = await bucket.ask(now, account_id)
        then = now + timedelta(seconds=refusal.retry_after)
        assert (refusal.reason, refusal.quota) == ("rate_limited", True)
        assert not (await bucket.ask(then - 2 * TICK, account_id)).admitted
        assert (await bucket.ask(then + 2 * TICK, account_id)).admitted


@pytest.mark.parametrize("requests", [1, 2, 3, 4, 5, 6, 10, 25, 100, 500])
async def test_a_fifth_rounded_up_stays_for_who_cannot_wait_but_never_the_last_place(
    database: Database, requests: int
) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(requests, 3600))
        waiting = [(await bucket.ask(START, uuid4())).admitted for _ in range(requests)]
        others = [(await bucket.ask(START)).admitted for _ in range(requests)]
    assert sum(waiting) == share_of_waiting(bucket.rates[0]) >= 1
    assert sum(waiting) + sum(others) == requests


async def test_processes_that_ask_at_once_fill_no_window_over_its_number(database: Database) -> None:
    rates, name = (Rate(5, 1), Rate(8, 2)), uuid4().hex

    async def hammer() -> None:
        async with database.connection() as connection:
            for _ in range(300):
                await source_quotas.admit(connection, name, name, rates)

    await asyncio.gather(*(hammer() for _ in range(4)))
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select seconds, moments from source_windows where bucket = %s", (name,)
        )
        logs = {row["seconds"]: row["moments"] for row in await cursor.fetchall()}
    assert sorted(logs) == [1, 2]
    for rate in rates:
        assert len(logs[rate.seconds]) <= rate.requests


async def test_a_rate_that_is_raised_makes_room_at_once(database: Database) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(2, 60))
        assert [(await bucket.ask(START)).admitted for _ in range(3)] == [True, True, False]
        bucket.rates = (Rate(600, 60), Rate(50_000, DAY))
        assert (await bucket.ask(START + TICK)).admitted


@dataclass
class Account:
    """An account with so many targets, which comes back when it was told to, a little late.

    Attributes:
        at: when it asks next.
        done: when its targets were looked up.
    """

    targets: int
    at: datetime = START
    id: UUID = field(default_factory=uuid4)
    done: list[float] = field(default_factory=list[float])


async def take_turns(bucket: Bucket, *accounts: Account, late: float = 0.005, seed: int = 1) -> None:
    """Let accounts ask until none has a target left but the first."""
    chance = random.Random(seed)
    while any(account.targets for account in accounts[1:]):
        account = min((one for one in accounts if one.targets), key=lambda one: one.at)
        admission = await bucket.ask(account.at, account.id)
        if admission.admitted:
            account.targets -= 1
            account.done.append((account.at - START).total_seconds())
            account.at += timedelta(milliseconds=1)
        else:
            account.at += timedelta(seconds=admission.retry_after + chance.random() * late)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("joins", [0.0, 0.4, 5.3])
async def test_an_account_with_many_targets_keeps_another_waiting_no_longer_than_its_share(
    database: Database, joins: float, seed: int
) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(10, 1))
        many, few = Account(1000), Account(10, START + timedelta(seconds=joins))
        await take_turns(bucket, many, few, seed=seed)
    # Eight of ten places a second are for who waits, four of these for each: 10 take three windows.
    assert few.done[-1] - joins <= 3.2
    # Nor are places left empty meanwhile.
    assert len([one for one in many.done if joins <= one]) >= 8 * (few.done[-1] - joins) - 18


async def test_places_of_a_day_that_become_free_go_to_accounts_in_turns(database: Database) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(25, 3600), Rate(100, DAY))
        many, few = Account(10_000), Account(5, START + timedelta(hours=5))
        await take_turns(bucket, many, few, late=2)
    # The day's places were gone: the first that come back are shared one by one.
    assert DAY <= few.done[0] <= DAY + 60
    assert few.done[-1] <= DAY + 300
    assert sum(one > DAY - 1 for one in many.done) >= 4


async def test_many_accounts_have_the_same_share(database: Database) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(10, 1))
        accounts = [Account(20, START + timedelta(milliseconds=10 * n)) for n in range(8)]
        many = Account(1000)
        await take_turns(bucket, many, *accounts)
    ends = [account.done[-1] for account in accounts]
    # Eight places a second for nine accounts, of which none is left empty.
    assert max(ends) <= 1.05 * 9 * 20 / 8
    assert len(many.done) <= 26


async def test_an_account_that_does_not_come_back_holds_up_the_others_for_a_moment_only(
    database: Database,
) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(10, 1))
        for _ in range(8):
            await bucket.ask(START, uuid4())
        for _ in range(20):  # accounts that give up
            assert not (await bucket.ask(START, uuid4())).admitted
        other = Account(8)
        await take_turns(bucket, Account(0), other)
        assert other.done[-1] <= 8
        cursor = await connection.execute(
            "select count(*)::int as n from source_turns where bucket = %s", (bucket.name,)
        )
        assert await cursor.fetchone() == {"n": 1}


async def test_few_accounts_have_a_turn_and_the_others_come_through_too(
    database: Database,
) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(1, 60))
        await bucket.ask(START, uuid4())
        for _ in range(1_005):
            assert not (await bucket.ask(START, uuid4())).admitted
        cursor = await connection.execute(
            "select count(*)::int as n from source_turns where bucket = %s", (bucket.name,)
        )
        assert await cursor.fetchone() == {"n": 1_000}
        late = Account(2, START + timedelta(seconds=1))
        await take_turns(bucket, Account(0), late)
        assert late.done[-1] <= 1_000 * 60 + 120


@given(
    rates=st.sampled_from([SMALL, (Rate(2, 1),), (Rate(5, 10), Rate(8, 60))]),
    asked=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from([0, 0, 1, 40_000, 300_000, 1_000_000, 5_000_000]).map(
                lambda microseconds: timedelta(microseconds=microseconds)
            ),
        ),
        min_size=3,
        max_size=40,
    ),
)
@examples
async def test_who_is_refused_among_several_finds_a_place_soon_after_it_was_told_to_come(
    database: Database, rates: tuple[Rate, ...], asked: list[tuple[int, timedelta]]
) -> None:
    accounts = [uuid4() for _ in range(5)]
    async with database.connection() as connection:
        bucket, now, told = Bucket(connection, *rates), START, dict[int, float]()
        for number, gap in asked:
            now += gap
            admission = await bucket.ask(now, accounts[number])
            told[number] = 0.0 if admission.admitted else admission.retry_after
            longest = max(rate.seconds for rate in rates)
            # No more than the turns of all who wait, each a window at the most.
            assert 0 <= told[number] <= (len(asked) + 1) * longest
            for rate in rates:
                assert bucket.used(now, rate) <= share_of_waiting(rate)
        for number in (one for one in told if told[one]):
            again = await bucket.ask(now, accounts[number])
            # Those ahead who do not come are waited for until half a minute after their time.
            latest = now + timedelta(seconds=again.retry_after + 31)
            while not again.admitted and now <= latest:
                now += timedelta(seconds=again.retry_after) + 2 * TICK
                again = await bucket.ask(now, accounts[number])
            assert again.admitted


async def test_who_cannot_wait_is_asked_for_though_others_wait(database: Database) -> None:
    async with database.connection() as connection:
        bucket = Bucket(connection, Rate(10, 60))
        for _ in range(9):
            await bucket.ask(START, uuid4())
        assert [(await bucket.ask(START)).admitted for _ in range(3)] == [True, True, False]


# The same by lookups


async def test_two_accounts_at_work_share_what_a_source_gives(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process(spec("a", rates=(Rate(10, 1),)))
    loop = asyncio.get_running_loop()
    started, ends = loop.time(), dict[str, float]()

    async def work(name: str, targets: int) -> None:
        waiter = Waiter(uuid4())
        for number in range(targets):
            while True:
                try:
                    await lookups.lookup("word", f"{name}{'x' * number}", LookupOptions(waiter=waiter))
                    break
                except AllProvidersFailed as failed:
                    await asyncio.sleep(failed.details["providers"][0]["retry_after"])
        ends[name] = loop.time() - started

    many = asyncio.create_task(work("many", 1000))
    await work("few", 10)
    many.cancel()
    assert ends["few"] <= 4


async def test_a_refusal_of_who_waits_is_nobody_elses(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process(spec("a", rates=(Rate(5, 3600),)))
    waiter = Waiter(uuid4())
    words = ["one", "two", "three", "four", "five"]
    for word in words[:4]:
        await lookups.lookup("word", word, LookupOptions(waiter=waiter))
    refused, answered = await asyncio.gather(
        lookups.lookup("word", "five", LookupOptions(waiter=waiter)),
        lookups.lookup("word", "five"),
        return_exceptions=True,
    )
    assert isinstance(refused, AllProvidersFailed)
    assert not isinstance(answered, BaseException)
    await lookups.lookup("word", "five", LookupOptions(waiter=waiter))  # kept
    assert len(world.providers["a"].requests) == 5


async def test_callers_of_one_query_send_one_request(world: World) -> None:
    await world.provider("a", a__value=1)
    release = world.providers["a"].hangs()
    lookups = await world.process(spec("a", rates=(Rate(10, 3600),)))
    callers: list[Waiter | None] = [None, None, Waiter(uuid4()), Waiter(uuid4())]
    asked = [
        asyncio.create_task(lookups.lookup("word", "one", LookupOptions(waiter=caller))) for caller in callers
    ]

    async def all_are_admitted() -> bool:
        async with world.database.connection() as connection:
            uses = await source_quotas.read_use(connection)
        return [use.used for use in uses.values()] == [3]  # the first two are one

    await eventually(all_are_admitted, 10, "each that waits has a place of its own")
    release.set()
    await asyncio.gather(*asked)
    assert len(world.providers["a"].requests) == 1
