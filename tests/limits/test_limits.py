"""Rate limits: exact over all processes, announced, and cheap for those who are over them."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from fastapi import APIRouter

from api.app import create_app
from api.http.limits import limit_requests
from api.http.strict_route import StrictRoute
from database import Database
from models import limits
from models.limits import Admission
from settings import Rate, Settings
from tests.api_server import Api, Person, serving
from tests.stacks import eventually

router = APIRouter(route_class=StrictRoute)


@router.get("/api/counted", dependencies=[limit_requests("lookups")])
async def counted() -> str:
    return "passed"


@asynccontextmanager
async def limited_to(settings: Settings, rate: Rate | None) -> AsyncGenerator[Api]:
    app = create_app(settings.model_copy(update={"limit_lookups": rate}))
    app.include_router(router)
    async with serving(app) as api:
        yield api


async def ask(api: Api, person: Person) -> httpx.Response:
    return await api.http.get("/api/counted", headers={"x-api-key": person.secret})


async def test_a_window_admits_its_number_and_then_says_when_it_has_room(settings: Settings) -> None:
    async with limited_to(settings, Rate(3, 60)) as api:
        person = await api.person()
        answers = [await ask(api, person) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert {answer.headers["ratelimit-policy"] for answer in answers} == {'"lookups";q=3;w=60'}
        left = [answer.headers["ratelimit"].split(";")[1] for answer in answers]
        assert left == ["r=2", "r=1", "r=0", "r=0", "r=0"]
        refusal = answers[-1]
        assert refusal.json()["code"] == "rate_limited"
        assert 55 <= int(refusal.headers["retry-after"]) <= 60
        assert refusal.headers["ratelimit"].endswith(f"t={refusal.headers['retry-after']}")


async def test_it_counts_accounts_not_credentials(settings: Settings) -> None:
    async with limited_to(settings, Rate(2, 60)) as api:
        one, other = await api.person(), await api.person()
        clients = [one.key, one.session, one.key]
        assert [(await c.get("/api/counted")).status_code for c in clients] == [200, 200, 429]
        assert (await ask(api, other)).status_code == 200


async def test_when_the_oldest_request_leaves_the_window_another_one_passes(settings: Settings) -> None:
    async with limited_to(settings, Rate(1, 4)) as api:
        person = await api.person()
        assert (await ask(api, person)).status_code == 200
        refusal = await ask(api, person)
        assert refusal.status_code == 429 and 1 <= int(refusal.headers["retry-after"]) <= 4

        async def passes() -> bool:
            return (await ask(api, person)).status_code == 200

        await eventually(passes, 30)


async def test_off_is_off(settings: Settings) -> None:
    async with limited_to(settings, None) as api:
        person = await api.person()
        answers = [await ask(api, person) for _ in range(200)]
        assert {answer.status_code for answer in answers} == {200}
        assert "ratelimit" not in answers[0].headers


async def test_it_is_exact_over_processes_whatever_comes_at_once(settings: Settings) -> None:
    async with AsyncExitStack() as stack:
        apis = [await stack.enter_async_context(limited_to(settings, Rate(60, 60))) for _ in range(3)]
        person = await apis[0].person()
        answers = await asyncio.gather(*(ask(apis[number % 3], person) for number in range(240)))
        assert Counter(answer.status_code for answer in answers) == {200: 60, 429: 180}
        left = sorted(
            int(a.headers["ratelimit"].split("r=")[1].split(";")[0]) for a in answers if a.is_success
        )
        assert left == list(range(60))


async def test_whoever_is_over_the_limit_costs_no_statement(settings: Settings, database: Database) -> None:
    async with limited_to(settings, Rate(1, 60)) as api:
        person = await api.person()
        await asyncio.wait_for(api.services.listener.connected.wait(), 30)
        assert [(await ask(api, person)).status_code for _ in range(2)] == [200, 429]
        async with database.connection() as connection:
            await connection.execute("alter table rate_windows rename to away")
            try:
                assert (await ask(api, person)).status_code == 429
            finally:
                await connection.execute("alter table away rename to rate_windows")


async def test_a_request_without_a_credential_is_not_counted(settings: Settings, database: Database) -> None:
    async with limited_to(settings, Rate(1, 60)) as api:
        async with database.connection() as connection:
            await connection.execute("truncate rate_windows")
            assert (await api.http.get("/api/counted")).status_code == 401
            assert (await (await connection.execute("select * from rate_windows")).fetchall()) == []


@pytest.mark.parametrize(
    ("asked", "admitted"),
    [([1, 1, 1, 1], [1, 1, 1, 0]), ([2, 2], [2, 1]), ([5], [3]), ([3, 1], [3, 0])],
)
async def test_many_decisions_in_one_statement_share_out_what_is_left(
    database: Database, asked: list[int], admitted: list[int]
) -> None:
    subject = ("test", f"{asked}")
    async with database.connection() as connection:
        found = [(await limits.admit(connection, {subject: (n, Rate(3, 60))}))[subject] for n in asked]
    assert [one.admitted for one in found] == admitted
    assert found[-1].used == 3


async def test_a_request_given_back_can_be_taken_again(database: Database) -> None:
    subject, rate = ("test", "given back"), Rate(1, 60)

    async def admit() -> Admission:
        async with database.connection() as connection:
            return (await limits.admit(connection, {subject: (1, rate)}))[subject]

    first = await admit()
    assert (first.admitted, (await admit()).admitted) == (1, 0)
    async with database.connection() as connection:
        await limits.give_back(connection, subject, first.moment)
        await limits.give_back(connection, subject, first.moment)
        await limits.give_back(connection, ("test", "nobody"), first.moment)
    assert [(await admit()).admitted for _ in range(2)] == [1, 0]
    assert math.ceil(first.room_in) == 60


async def test_logs_in_which_nothing_counts_are_forgotten(database: Database) -> None:
    rate = Rate(1, 60)
    async with database.connection() as connection:
        await connection.execute("truncate rate_windows")
        old = datetime.now(UTC) - timedelta(minutes=3)
        await limits.admit(connection, {("test", "old"): (1, rate)}, old)
        await limits.admit(connection, {("test", "new"): (1, rate)})
        await limits.forget_ended(connection)
        cursor = await connection.execute("select subject from rate_windows")
        assert [row["subject"] for row in await cursor.fetchall()] == ["new"]
