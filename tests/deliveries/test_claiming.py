"""The claim: which deliveries go next, so that nobody's endpoints hold up those of others."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest

from database import Database
from models.webhooks import delivery_work, endpoints
from models.webhooks.delivery_writes import Attempt
from tests.deliveries.claims import Claimed, attempt, claim, end
from tests.deliveries.receivers import Hooks

pytestmark = pytest.mark.usefixtures("nothing_waits")

NewHooks = Callable[[], Awaitable[Hooks]]
NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
async def nothing_waits(database: Database) -> None:
    """What earlier tests left is gone."""
    async with database.connection() as connection:
        await connection.execute("truncate delivery_work, delivery_batches, endpoints")


async def waiting(new_hooks: NewHooks, count: int, *, endpoints: int = 1, **chosen: Any) -> Hooks:
    """An account with so many deliveries that wait for each of its endpoints."""
    hooks = await new_hooks()
    for _ in range(endpoints):
        await hooks.endpoint(NOWHERE, **chosen)
    await hooks.emit(count)
    return hooks


async def endpoint_of(hooks: Hooks) -> UUID:
    async with hooks.database.connection() as connection:
        [one] = await endpoints.list_all(connection, hooks.keyring, hooks.account_id)
    return one.id


async def change_endpoint(database: Database, endpoint_id: UUID, change: LiteralString, *values: Any) -> None:
    async with database.connection() as connection:
        await connection.execute(f"update endpoints set {change} where id = %s", (*values, endpoint_id))


async def claim_all(database: Database, **options: Any) -> list[Claimed]:
    """Claims until nothing may be claimed."""
    found: list[Claimed] = []
    while (one := await claim(database, **options)).deliveries:
        found.append(one)
    return found


def total(claims: list[Claimed]) -> Counter[UUID]:
    return sum((one.accounts for one in claims), Counter[UUID]())


async def test_the_account_that_was_served_longest_ago_goes_first(
    database: Database, new_hooks: NewHooks
) -> None:
    ids = [(await waiting(new_hooks, 3)).account_id for _ in range(3)]
    turns = [list(one.accounts) for one in await claim_all(database, rows=1)]
    assert len(turns) == 9
    assert sorted(turns[:3]) == sorted([[one] for one in ids])
    assert turns == turns[:3] * 3


async def test_the_endpoints_of_an_account_take_turns(database: Database, new_hooks: NewHooks) -> None:
    await waiting(new_hooks, 3, endpoints=3)
    turns = [list(one.endpoints) for one in await claim_all(database, rows=1)]
    assert len(turns) == 9 and len({one for [one] in turns[:3]}) == 3
    assert turns == turns[:3] * 3


async def test_the_deliveries_of_an_endpoint_go_in_the_order_of_their_events(
    database: Database, hooks: Hooks
) -> None:
    await hooks.endpoint(NOWHERE)
    for _ in range(4):
        await hooks.emit()
    claimed = [one for each in await claim_all(database, rows=1) for one in each.deliveries]
    rows = sorted(await hooks.rows(), key=lambda row: row["created_at"])
    assert claimed == [row["id"] for row in rows]


async def test_who_waits_alone_gets_the_whole_batch(database: Database, new_hooks: NewHooks) -> None:
    await waiting(new_hooks, 40)
    assert len((await claim(database, rows=16)).deliveries) == 16


@pytest.mark.parametrize("count", [1, 5], ids=["with one endpoint", "with five"])
async def test_an_account_gets_a_quarter_of_a_batch_while_others_wait(
    database: Database, new_hooks: NewHooks, count: int
) -> None:
    greedy = await waiting(new_hooks, 40, endpoints=count)
    modest = await waiting(new_hooks, 1)
    found = await claim(database, rows=16)
    assert found.accounts == {greedy.account_id: 4, modest.account_id: 1}


OFF: dict[str, LiteralString] = {
    "is off": "is_active = false",
    "is paused": "paused_until = now() + interval '1 minute'",
}


@pytest.mark.parametrize("state", OFF)
async def test_an_endpoint_that_is_off_or_paused_is_passed_over_and_takes_nothing_from_others(
    database: Database, new_hooks: NewHooks, state: str
) -> None:
    off, on = await waiting(new_hooks, 2), await waiting(new_hooks, 40)
    await change_endpoint(database, await endpoint_of(off), OFF[state])
    assert (await claim(database, rows=16)).accounts == {on.account_id: 16}


@pytest.mark.parametrize("state", OFF)
async def test_a_claim_says_when_a_paused_endpoint_has_its_turn(
    database: Database, new_hooks: NewHooks, state: str
) -> None:
    await change_endpoint(database, await endpoint_of(await waiting(new_hooks, 1)), OFF[state])
    found = await claim(database)
    assert not found.deliveries
    assert found.seconds is None if state == "is off" else 50 < (found.seconds or 0) <= 60


async def test_an_endpoint_that_somebody_holds_is_passed_over(
    database: Database, new_hooks: NewHooks
) -> None:
    held, other = await waiting(new_hooks, 2), await waiting(new_hooks, 2)
    async with database.transaction() as connection:
        await connection.execute(
            "select from endpoints where account_id = %s for no key update", (held.account_id,)
        )
        assert (await claim(database)).accounts == {other.account_id: 2}
    assert (await claim(database)).accounts == {held.account_id: 2}


async def test_where_nothing_waits_nothing_is_said(database: Database, hooks: Hooks) -> None:
    async with database.connection() as connection:
        assert await delivery_work.claim(connection, hooks.account_id, window=16) is None


# How many may be at work


async def test_an_account_has_so_many_at_work_as_its_window_allows(
    database: Database, new_hooks: NewHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_work, "ACCOUNT_WINDOW", 8)
    await waiting(new_hooks, 10, endpoints=8)
    claims = await claim_all(database, rows=5)
    assert [len(one.deliveries) for one in claims] == [5, 3]
    async with database.connection() as connection:
        await end(connection, claims[1], attempt())
    assert [len(one.deliveries) for one in await claim_all(database, rows=5)] == [3]


async def test_an_endpoint_that_hangs_leaves_room_for_the_others_of_its_account(
    database: Database, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_work, "ACCOUNT_WINDOW", 8)
    hangs = await hooks.endpoint(NOWHERE)
    await hooks.emit(40)
    assert [one.endpoints for one in await claim_all(database)] == [{hangs: 4}]
    other = await hooks.endpoint(NOWHERE, events=["key.created"])
    await change_endpoint(database, hangs, "is_active = false")
    await hooks.emit(1)
    await change_endpoint(database, hangs, "is_active = true")
    assert [one.endpoints for one in await claim_all(database)] == [{other: 1}]


async def test_however_much_accounts_want_there_is_room_for_the_next(
    database: Database, new_hooks: NewHooks
) -> None:
    for _ in range(3):
        await waiting(new_hooks, 40)
        await claim_all(database, rows=64, window=64)
    modest = await waiting(new_hooks, 1)
    assert (await claim(database, window=64)).accounts == {modest.account_id: 1}


async def test_the_last_place_is_given_away_too(database: Database, new_hooks: NewHooks) -> None:
    await waiting(new_hooks, 2)
    assert [len(one.deliveries) for one in await claim_all(database, window=1)] == [1]


@pytest.mark.parametrize("rate_limit", [None, 60], ids=["with no rate", "held to a rate"])
async def test_who_waits_for_room_is_not_told_to_look_again_at_once(
    database: Database, new_hooks: NewHooks, monkeypatch: pytest.MonkeyPatch, rate_limit: int | None
) -> None:
    monkeypatch.setattr(delivery_work, "ACCOUNT_WINDOW", 1)
    await waiting(new_hooks, 3, rate_limit=rate_limit)
    assert len((await claim(database)).deliveries) == 1
    found = await claim(database)
    assert not found.deliveries and found.seconds is None


async def test_claims_at_once_never_hand_out_the_same(database: Database, new_hooks: NewHooks) -> None:
    for _ in range(4):
        await waiting(new_hooks, 50)
    found: list[UUID] = []

    async def go_on() -> None:
        while True:
            try:
                one = await claim(database, rows=10)
            except psycopg.errors.LockNotAvailable:
                continue
            if not one.deliveries:
                return
            found.extend(one.deliveries)

    await asyncio.gather(*(go_on() for _ in range(4)))
    assert len(found) == len(set(found)) == 200


# Rates

MINUTE = 60.0


async def let_pass(database: Database, endpoint_id: UUID, seconds: float) -> None:
    """What the token bucket looks like so much later."""
    await change_endpoint(database, endpoint_id, "next_at = next_at - make_interval(secs => %s)", seconds)


@pytest.mark.parametrize("rate", [1, 3, 10, 11, 60, 600])
async def test_no_minute_has_more_deliveries_than_an_endpoint_takes(
    database: Database, hooks: Hooks, rate: int
) -> None:
    chance = random.Random(rate)
    endpoint_id = await hooks.endpoint(NOWHERE, rate_limit=rate)
    await hooks.emit(5 * rate + 20)
    passed, longest, moments = 0.0, 0.0, list[float]()
    for _ in range(60):
        pause = chance.choice([0, 0, 60 / rate, chance.uniform(0, 20), chance.uniform(0, 70)])
        await let_pass(database, endpoint_id, pause)
        passed += pause
        asked_at = time.monotonic()
        found = await claim(database, rows=chance.choice([1, 3, 256]))
        longest = max(longest, time.monotonic() - asked_at)
        moments += [passed + asked_at] * len(found.deliveries)
        async with database.connection() as connection:
            await end(connection, found, attempt())
    # When exactly within a call it was claimed is not known.
    for index, moment in enumerate(moments):
        assert sum(later < moment + MINUTE - longest for later in moments[index:]) <= rate


@pytest.mark.parametrize("rate", [1, 7, 60])
async def test_a_claim_says_when_the_next_token_comes(database: Database, hooks: Hooks, rate: int) -> None:
    endpoint_id = await hooks.endpoint(NOWHERE, rate_limit=rate)
    await hooks.emit(rate + 1)
    while (found := await claim(database)).deliveries:
        continue
    assert found.seconds is not None and 0 < found.seconds <= 61 / (rate - rate // 10)
    await let_pass(database, endpoint_id, found.seconds)
    assert len((await claim(database)).deliveries) == 1


async def test_an_endpoint_without_a_rate_is_not_held_to_that_of_another(
    database: Database, hooks: Hooks
) -> None:
    slow = await hooks.endpoint(NOWHERE, rate_limit=1)
    quick = await hooks.endpoint(NOWHERE)
    await hooks.emit(3)
    assert (await claim(database)).endpoints == {slow: 1, quick: 3}
    await hooks.emit(3)
    assert (await claim(database)).endpoints == {quick: 3}


# Endpoints that fail

FAILED = attempt(500)


async def test_an_endpoint_that_failed_four_times_in_a_row_gets_little_at_a_time(
    database: Database, new_hooks: NewHooks
) -> None:
    hooks = await waiting(new_hooks, 100)
    endpoint_id = await endpoint_of(hooks)

    async def attempted(count: int, made: Attempt) -> None:
        found = await claim(database, rows=count)
        assert len(found.deliveries) == count
        async with database.connection() as connection:
            await end(connection, found, made)

    await attempted(3, FAILED)
    assert (await hooks.endpoint_row(endpoint_id))["strikes"] == 3
    await attempted(33, FAILED)
    few = await claim(database)
    assert len(few.deliveries) == 32
    held = await claim(database)
    assert not held.deliveries and held.seconds is not None and 0 < held.seconds <= 1
    # One success, and it gets what it wants.
    async with database.connection() as connection:
        await end(connection, few, attempt(), few.deliveries[:1])
    assert (await hooks.endpoint_row(endpoint_id))["strikes"] == 0
    assert len((await claim(database)).deliveries) == 32


async def test_a_receiver_that_asks_for_a_pause_gets_one(database: Database, new_hooks: NewHooks) -> None:
    await waiting(new_hooks, 3)
    found = await claim(database, rows=1)
    async with database.connection() as connection:
        await end(connection, found, attempt(429, retry_after=30))
    held = await claim(database)
    assert not held.deliveries and held.seconds is not None and 20 < held.seconds <= 30
