"""Failed logins are bounded for an address, and for an account over all addresses it is not known from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_network
from unicodedata import normalize
from uuid import uuid4

import httpx
import pytest

from api.http.limits import network_of
from database import Database
from models.accounts import known_addresses
from settings import Rate, Settings, load
from tests.api_server import PASSWORD, Api, Person, running

pytestmark = pytest.mark.usefixtures("quick_passwords")
# A rate of n in s seconds allows an unfamiliar address n failures for one e-mail in 10 s seconds, and all
# unfamiliar addresses together 10 n.
RATE = Rate(2, 60)
HOME = "192.0.2.1"


@pytest.fixture(autouse=True)
async def no_windows(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("truncate rate_windows")


def behind_a_proxy(settings: Settings, rate: Rate) -> AbstractAsyncContextManager[Api]:
    proxies = (ip_network("127.0.0.0/8"),)
    return running(settings, limit_login=rate, trusted_proxies=proxies, signup="open")


@pytest.fixture
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with behind_a_proxy(settings, RATE) as api:
        yield api


async def log_in(api: Api, address: str, email: str, password: str = PASSWORD) -> httpx.Response:
    body, headers = {"email": email, "password": password}, {"x-forwarded-for": address}
    return await api.http.post("/api/auth/login", json=body, headers=headers)


async def fail(api: Api, address: str, email: str, times: int = 1) -> list[int]:
    return [(await log_in(api, address, email, "a wrong password")).status_code for _ in range(times)]


async def guess_from_many_addresses(api: Api, email: str) -> None:
    """Use up what all unfamiliar addresses together may fail."""
    seen = await asyncio.gather(*(fail(api, f"203.0.113.{number}", email, 2) for number in range(10)))
    assert seen == [[401, 401]] * 10


@pytest.mark.parametrize(
    ("client", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
        ("a socket", ""),
    ],
)
def test_an_address_counts_with_all_that_one_subscriber_has(client: str | None, network: str) -> None:
    assert network_of(client) == network


def test_the_largest_limit_leaves_room_in_the_table() -> None:
    rate = load({"VEDETTE_LIMIT_LOGIN": "999999999/999999"}).limit_login_anywhere
    assert rate is not None and max(rate.requests, rate.seconds) < 2**31


async def test_a_subscriber_of_ipv6_is_limited_whichever_address_it_takes(api: Api) -> None:
    person = await api.person()
    seen = [await fail(api, f"2001:db8::{number}", person.account.email) for number in (1, 2, 3)]
    assert seen == [[401], [401], [429]]
    assert await fail(api, "2001:db8:0:1::1", person.account.email) == [401]


async def test_one_account_is_not_guessed_from_many_addresses(api: Api) -> None:
    person, other = await api.person(), await api.person()
    await guess_from_many_addresses(api, person.account.email)
    refused = await log_in(api, "198.51.100.1", person.account.email)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 500 < int(refused.headers["retry-after"]) <= 600
    assert (await log_in(api, "198.51.100.1", other.account.email)).status_code == 200


async def test_where_an_account_has_logged_in_before_it_can_while_others_guess(
    api: Api, database: Database
) -> None:
    person = await api.person()
    first = await log_in(api, HOME, person.account.email)
    token = {"authorization": f"Bearer {first.json()['token']}"}
    assert (await api.http.post("/api/auth/logout", headers=token)).status_code == 204
    await guess_from_many_addresses(api, person.account.email)
    assert (await log_in(api, HOME, person.account.email)).status_code == 200
    assert (await log_in(api, "192.0.2.2", person.account.email)).status_code == 429


async def test_who_registers_is_known_from_there(api: Api) -> None:
    body = {"email": f"{uuid4().hex}@example.com", "password": PASSWORD}
    await api.http.post("/api/auth/register", json=body, headers={"x-forwarded-for": HOME})
    await guess_from_many_addresses(api, body["email"])
    assert (await log_in(api, HOME, body["email"])).status_code == 200


async def test_few_addresses_lock_nobody_out_however_long_they_go_on(api: Api, database: Database) -> None:
    person = await api.person()
    for number in range(9):
        for expected in ([401, 401], [429, 429], [429, 429]):
            assert await fail(api, f"203.0.113.{number}", person.account.email, 2) == expected
            async with database.connection() as connection:  # the address's own window is over
                await connection.execute("delete from rate_windows where name = 'login'")
    assert (await log_in(api, "198.51.100.1", person.account.email)).status_code == 200


async def test_a_known_address_waits_for_no_more_than_its_own_window(api: Api, database: Database) -> None:
    person = await api.person()
    assert (await log_in(api, HOME, person.account.email)).status_code == 200
    assert await fail(api, HOME, person.account.email, 3) == [401, 401, 429]
    async with database.connection() as connection:
        await connection.execute("delete from rate_windows where name = 'login' and subject = %s", (HOME,))
    assert (await log_in(api, HOME, person.account.email)).status_code == 200


async def test_an_email_counts_as_one_however_it_is_written(api: Api) -> None:
    name = f"andré.{uuid4().hex}"
    body = {"email": f"{name}@example.com", "password": PASSWORD}
    await api.http.post("/api/auth/register", json=body, headers={"x-forwarded-for": HOME})
    spellings = [f" {name.upper()}@EXAMPLE.com ", normalize("NFD", f"{name}@example.com")]
    for spelling in spellings:
        assert (await log_in(api, HOME, spelling)).status_code == 200, "it is the account's"
        assert await fail(api, "203.0.113.1", spelling) == [401]
    async with api.services.database.connection() as connection:
        await connection.execute("delete from rate_windows where name = 'login'")
    assert await fail(api, "203.0.113.1", body["email"]) == [429]


async def test_an_email_that_nobody_has_is_limited_like_one_that_somebody_has(api: Api) -> None:
    seen: list[list[int]] = []
    for email in ((await api.person()).account.email, "nobody@example.com", "not an e-mail"):
        await guess_from_many_addresses(api, email)
        seen.append(await fail(api, "198.51.100.1", email))
        async with api.services.database.connection() as connection:
            await connection.execute("truncate rate_windows")
    assert seen == [[429]] * 3


async def test_right_logins_from_new_addresses_do_not_count(settings: Settings) -> None:
    async with behind_a_proxy(settings, Rate(1, 60)) as api:
        email = (await api.person()).account.email
        statuses = [(await log_in(api, f"203.0.113.{number}", email)).status_code for number in range(12)]
        assert statuses == [200] * 12


async def test_windows_name_no_email_and_are_short(api: Api, database: Database) -> None:
    await fail(api, HOME, "a" * 200 + "@example.com")
    async with database.connection() as connection:
        rows = await (await connection.execute("select subject from rate_windows")).fetchall()
    assert len(rows) == 3
    assert all("@" not in row["subject"] and len(row["subject"]) < 120 for row in rows)


async def change(api: Api, person: Person, token: str, address: str, password: str) -> int:
    body = {"current_password": password, "new_password": "another long password"}
    headers = {"authorization": f"Bearer {token}", "x-forwarded-for": address}
    return (await api.http.post("/api/auth/password", json=body, headers=headers)).status_code


async def test_a_session_tries_few_passwords_and_keeps_no_other_session_from_changing_it(api: Api) -> None:
    person = await api.person()
    stolen = (await log_in(api, HOME, person.account.email)).json()["token"]
    tried = [await change(api, person, stolen, f"203.0.113.{n}", "a wrong password") for n in range(3)]
    assert tried == [403, 403, 429]
    assert await change(api, person, person.token, HOME, PASSWORD) == 204


async def test_wrong_current_passwords_count_for_the_address_too(api: Api) -> None:
    people = [await api.person() for _ in range(3)]
    tried = [await change(api, person, person.token, HOME, "a wrong password") for person in people]
    assert tried == [403, 403, 429]


async def test_a_new_password_makes_the_addresses_of_old_ones_strange(api: Api) -> None:
    person = await api.person()
    for address in (HOME, "192.0.2.2"):
        token = (await log_in(api, address, person.account.email)).json()["token"]
    assert await change(api, person, token, "192.0.2.2", PASSWORD) == 204
    await guess_from_many_addresses(api, person.account.email)
    seen = [
        (await log_in(api, address, person.account.email, "another long password")).status_code
        for address in (HOME, "192.0.2.2")
    ]
    assert seen == [429, 200]


async def test_an_address_is_known_for_90_days_from_the_last_login(api: Api, database: Database) -> None:
    person = await api.person()
    for address in (HOME, "192.0.2.2"):
        await log_in(api, address, person.account.email)
    async with database.connection() as connection:
        await connection.execute(
            "update known_addresses set seen_at = now() - interval '90 days' where network = %s", (HOME,)
        )
        await known_addresses.forget_old(connection)
        cursor = await connection.execute(
            "select network from known_addresses where account_id = %s", (person.account.id,)
        )
        assert [row["network"] for row in await cursor.fetchall()] == ["192.0.2.2"]
