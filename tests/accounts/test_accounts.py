"""Accounts: sign-up, and the first one of an installation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from ipaddress import ip_network
from typing import Any
from uuid import uuid4

import httpx
import pytest

from database import Database
from models.accounts import accounts, keys
from models.accounts.accounts import FirstAccount
from settings import Rate, Settings
from tests.api_server import Api, running

pytestmark = pytest.mark.usefixtures("quick_passwords")


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with running(settings, limit_login=Rate(10_000, 60)) as api:
        yield api


def registration(**changes: object) -> dict[str, object]:
    return {"email": f"{uuid4().hex}@example.com", "password": "twelve chars", "name": " Ada ", **changes}


async def test_whoever_registers_is_logged_in_and_has_the_sign_up_credits(api: Api) -> None:
    response = await api.http.post("/api/auth/register", json=registration())
    assert response.status_code == 201
    assert response.json()["user"]["name"] == "Ada"
    client = await api.client(Authorization=f"Bearer {response.json()['token']}")
    assert (await client.get("/api/credits")).json()["balance"] == 1000


async def test_an_email_has_one_account_whatever_its_case(api: Api) -> None:
    body = registration()
    await api.http.post("/api/auth/register", json=body)
    response = await api.http.post("/api/auth/register", json={**body, "email": str(body["email"]).upper()})
    assert (response.status_code, response.json()["code"]) == (403, "registration_refused")


async def test_a_refusal_says_nothing_of_the_email(api: Api) -> None:
    body = registration()
    await api.http.post("/api/auth/register", json=body)
    refused = (await api.http.post("/api/auth/register", json=body)).json()
    told = f"{refused['title']} {refused['detail']} {refused['code']}".lower()
    assert not [word for word in ("mail", "taken", "exists", "conflict", str(body["email"])) if word in told]


async def test_whoever_was_refused_often_is_refused_whatever_the_email(
    settings: Settings, database: Database
) -> None:
    async with database.connection() as connection:
        await connection.execute("truncate rate_windows")
    async with running(settings, limit_login=Rate(3, 60)) as api:

        async def register(body: dict[str, object]) -> httpx.Response:
            # The shorter limit of the address is over again each time.
            async with database.connection() as connection:
                await connection.execute("delete from rate_windows where name = 'login'")
            return await api.http.post("/api/auth/register", json=body)

        taken = registration()
        made = [(await register(body)).status_code for body in (taken, *(registration() for _ in range(4)))]
        assert made == [201] * 5, "accounts that are made are no refusals"
        answers = [await register(body) for body in (taken, taken, taken, taken, registration())]
        assert [answer.status_code for answer in answers] == [403, 403, 403, 429, 429]
        assert 500 < int(answers[-1].headers["retry-after"]) <= 600


BAD = {
    "no at": ({"email": "nobody"}, "/email", "invalid_email"),
    "blank": ({"email": ""}, "/email", "too_short"),
    "two at": ({"email": "a@b@example.com"}, "/email", "invalid_email"),
    "long": ({"email": "a" * 250 + "@example.com"}, "/email", "too_long"),
    "short password": ({"password": "eleven char"}, "/password", "too_short"),
    "long password": ({"password": "x" * 1025}, "/password", "too_long"),
    "number": ({"password": 123456789012}, "/password", "wrong_type"),
    "unknown": ({"admin": True}, "/admin", "unknown_field"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_registration_is_refused_where_it_is_wrong(api: Api, case: str) -> None:
    change, pointer, code = BAD[case]
    response = await api.http.post("/api/auth/register", json=registration(**change))
    assert response.status_code == 400, response.text
    assert [(error["pointer"], error["code"]) for error in response.json()["errors"]] == [(pointer, code)]


@pytest.mark.parametrize(
    ("changes", "open_"),
    [
        ({}, True),
        ({"host": "0.0.0.0"}, False),
        ({"signup": "closed"}, False),
        ({"host": "0.0.0.0", "signup": "open"}, True),
        ({"public_url": "http://localhost:8000"}, True),
        ({"public_url": "https://vedette.example"}, False),
        ({"public_url": "https://vedette.example", "signup": "open"}, True),
        ({"trusted_proxies": (ip_network("127.0.0.1/32"),)}, False),
    ],
)
async def test_sign_up_is_open_on_loopback_only_unless_set(
    settings: Settings, changes: dict[str, Any], open_: bool
) -> None:
    async with running(settings, limit_login=None, **changes) as api:
        response = await api.http.post("/api/auth/register", json=registration())
        if open_:
            assert response.status_code == 201
        else:
            assert (response.status_code, response.json()["code"]) == (403, "signup_closed")


async def test_sign_ups_share_the_login_limit(settings: Settings, database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("truncate rate_windows")
    async with running(settings, limit_login=Rate(2, 60)) as api:
        statuses = [
            (await api.http.post("/api/auth/register", json=registration())).status_code for _ in range(3)
        ]
        assert statuses == [201, 201, 429]
        body = {"email": "a@example.com", "password": "wrong"}
        assert (await api.http.post("/api/auth/login", json=body)).status_code == 429


async def test_one_address_registering_twice_at_once_makes_one_account(api: Api) -> None:
    body = registration()
    answers = await asyncio.gather(*(api.http.post("/api/auth/register", json=body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 403, 403, 403]


class TestTheFirstAccount:
    @pytest.fixture
    async def first(self, database: Database) -> list[FirstAccount | None]:
        """Return what eight processes get that start at once over an empty database."""

        async def start() -> FirstAccount | None:
            async with database.connection() as connection:
                return await accounts.create_first_account(connection)

        async with database.connection() as connection:
            await connection.execute("truncate accounts cascade")
        return await asyncio.gather(*(start() for _ in range(8)))

    async def test_there_is_one_however_many_processes_start(self, first: list[FirstAccount | None]) -> None:
        assert len([account for account in first if account]) == 1

    async def test_its_password_logs_in_and_its_key_has_every_scope(
        self, settings: Settings, first: list[FirstAccount | None]
    ) -> None:
        account = next(account for account in first if account)
        async with running(settings) as api:
            body = {"email": account.email, "password": account.password}
            assert (await api.http.post("/api/auth/login", json=body)).status_code == 200
            key = await api.client(X_API_Key=account.api_key)
            me = (await key.get("/api/auth/me")).json()
            assert set(me["credential"]["scopes"]) == keys.ALL_SCOPES
            assert (await key.get("/api/credits")).json()["balance"] == 100_000
