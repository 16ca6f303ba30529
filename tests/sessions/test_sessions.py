"""Sessions: login, logout, and tokens that are not ours."""

from __future__ import annotations

import asyncio
import statistics
import string
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from uuid import uuid4

import jwt
import pytest

from api.http.middleware import client_address
from database import Database
from models.accounts import sessions
from sealing import Keyring
from settings import Rate, Settings
from tests.api_server import PASSWORD, Api, Person, running


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with running(settings, limit_login=Rate(10_000, 60)) as api:
        yield api


@pytest.fixture
async def no_windows(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("truncate rate_windows")


async def log_in(api: Api, email: str, password: str = PASSWORD) -> str:
    response = await api.http.post("/api/auth/login", json={"email": email, "password": password})
    assert response.status_code == 200, response.text
    return response.json()["token"]


async def works(api: Api, token: str) -> bool:
    response = await api.http.get("/api/auth/me", headers={"authorization": f"Bearer {token}"})
    assert response.status_code in (200, 401)
    return response.status_code == 200


def forged(person: Person, key: bytes | None, *, algorithm: str = "HS256", **changes: object) -> str:
    claims = {**jwt.decode(person.token, options={"verify_signature": False}), **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm)  # pyright: ignore[reportArgumentType]


async def test_login_gives_a_token_that_says_who_and_for_how_long(api: Api) -> None:
    person = await api.person()
    response = await api.http.post(
        "/api/auth/login", json={"email": f" {person.account.email.upper()} ", "password": PASSWORD}
    )
    body = response.json()
    assert body["token_type"] == "bearer"
    assert body["user"]["email"] == person.account.email
    left = datetime.fromisoformat(body["expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)
    assert await works(api, body["token"])


async def test_a_wrong_email_and_a_wrong_password_answer_alike(api: Api) -> None:
    person = await api.person()
    answers = [
        await api.http.post("/api/auth/login", json={"email": email, "password": "not the password"})
        for email in (person.account.email, "nobody@example.com", "not an e-mail")
    ]
    assert {answer.status_code for answer in answers} == {401}
    bodies = [{**answer.json(), "request_id": ""} for answer in answers]
    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["code"] == "invalid_credentials"


@pytest.mark.long
async def test_a_wrong_email_takes_as_long_as_a_wrong_password(api: Api) -> None:
    registered = {"email": f"{uuid4().hex}@example.com", "password": PASSWORD}
    assert (await api.http.post("/api/auth/register", json=registered)).status_code == 201
    await api.http.post("/api/auth/login", json={"email": "first@example.com", "password": "the first one"})

    async def seconds(email: str) -> float:
        started = time.perf_counter()
        await api.http.post("/api/auth/login", json={"email": email, "password": "not the password"})
        return time.perf_counter() - started

    known: list[float] = []
    unknown: list[float] = []
    for _ in range(7):
        known.append(await seconds(registered["email"]))
        unknown.append(await seconds("nobody@example.com"))
    assert 0.5 < statistics.median(known) / statistics.median(unknown) < 2


async def test_logout_ends_the_token_at_once_and_everywhere(
    api: Api, settings: Settings, long_memory: None
) -> None:
    async with running(settings) as other:
        person = await api.person()
        await asyncio.wait_for(other.services.listener.connected.wait(), 30)
        assert await works(other, person.token)
        assert (await person.session.post("/api/auth/logout")).status_code == 204
        assert not await works(api, person.token)
        async with asyncio.timeout(30):
            while await works(other, person.token):
                await asyncio.sleep(0)


async def test_a_new_password_ends_all_other_sessions(api: Api, long_memory: None) -> None:
    person = await api.person()
    other = await log_in(api, person.account.email)
    assert await works(api, other)
    body = {"current_password": PASSWORD, "new_password": "another long password"}
    assert (await person.session.post("/api/auth/password", json=body)).status_code == 204
    assert await works(api, person.token)
    async with asyncio.timeout(30):
        while await works(api, other):
            await asyncio.sleep(0)
    await log_in(api, person.account.email, "another long password")


async def test_the_password_changes_only_for_whoever_knows_it_and_has_a_session(api: Api) -> None:
    person = await api.person()
    body = {"current_password": "a wrong password", "new_password": "another long password"}
    response = await person.session.post("/api/auth/password", json=body)
    assert (response.status_code, response.json()["code"]) == (403, "wrong_password")
    response = await person.key.post("/api/auth/password", json=body)
    assert (response.status_code, response.json()["code"]) == (403, "session_required")


async def test_tokens_that_we_did_not_sign_or_that_lack_a_claim_are_refused(api: Api) -> None:
    person = await api.person()
    ours = api.services.keyring.derive_keys("sessions")[0]
    assert await works(api, forged(person, ours))
    for token in (
        forged(person, b"x" * 32),
        forged(person, None, algorithm="none"),
        forged(person, api.services.keyring.derive_keys("idempotency")[0]),
        forged(person, ours * 2, algorithm="HS512"),
        forged(person, ours, exp=None),
        forged(person, ours, exp=datetime.now(UTC) - timedelta(seconds=1)),
        forged(person, ours, sid=None),
        forged(person, ours, sid=str(uuid4())),
        forged(person, ours, sub=str(uuid4())),
        forged(person, ours, aud="another"),
        forged(person, ours, iss="another"),
        "a.b.c",
        "x" * 5000,
    ):
        assert not await works(api, token), token


def test_a_token_outlives_a_new_root_key_and_not_the_removal_of_its_own() -> None:
    old, new = "old" * 12, "new" * 12
    claims = {
        "iss": "vedette", "aud": "vedette/api", "sub": str(uuid4()), "sid": str(uuid4()),
        "iat": datetime.now(UTC), "exp": datetime.now(UTC) + timedelta(hours=1),
    }  # fmt: skip
    token = jwt.encode(claims, Keyring([old]).derive_keys("sessions")[0], algorithm="HS256")
    assert sessions.read_claims(Keyring([new, old]), token) is not None
    assert sessions.read_claims(Keyring([new]), token) is None


async def test_failed_logins_are_limited_per_address_and_right_ones_do_not_count(
    settings: Settings, no_windows: None
) -> None:
    async with running(settings, limit_login=Rate(3, 60)) as api:
        person, other = await api.person(), await api.person()
        for _ in range(5):
            await log_in(api, person.account.email)
        statuses: list[int] = []
        for password in ["wrong"] * 4:
            body = {"email": person.account.email, "password": password}
            answer = await api.http.post("/api/auth/login", json=body)
            statuses.append(answer.status_code)
        assert statuses == [401, 401, 401, 429]
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        answer = await api.http.post(
            "/api/auth/login", json={"email": other.account.email, "password": PASSWORD}
        )
        assert answer.status_code == 429


async def test_nobody_locks_another_out_from_elsewhere(settings: Settings, no_windows: None) -> None:
    from ipaddress import ip_network

    async with running(
        settings, limit_login=Rate(3, 60), trusted_proxies=(ip_network("127.0.0.0/8"),)
    ) as api:
        person = await api.person()
        body = {"email": person.account.email, "password": "wrong"}
        for _ in range(4):
            answer = await api.http.post(
                "/api/auth/login", json=body, headers={"x-forwarded-for": "203.0.113.9"}
            )
        assert answer.status_code == 429
        body["password"] = PASSWORD
        answer = await api.http.post(
            "/api/auth/login", json=body, headers={"x-forwarded-for": "203.0.113.10"}
        )
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.1", "198.51.100.7", "203.0.113.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "junk, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.7, junk", "10.0.0.1"),
        ("::ffff:10.0.0.1", "2001:db8::1", "2001:db8::1"),
        (None, "198.51.100.7", None),
    ],
)
def test_a_forwarded_address_is_believed_as_far_as_our_proxies_wrote_it(
    peer: str | None, forwarded: str, client: str | None
) -> None:
    assert client_address(peer, forwarded, (ip_network("10.0.0.0/8"),)) == client


async def test_a_token_has_one_spelling_so_that_none_outlives_its_session(api: Api) -> None:
    person = await api.person()
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    last = alphabet.index(person.token[-1])
    others = [person.token[:-1] + alphabet[last ^ bits] for bits in (1, 2, 3)]
    others += [f"{person.token}=", person.token[:-4] + "!" + person.token[-4:]]
    for token in others:
        client = await api.client(Authorization=f"Bearer {token}")
        assert (await client.get("/api/auth/me")).status_code == 401, token
    assert (await person.session.get("/api/auth/me")).status_code == 200
