"""What operators do at the command line to accounts, keys and credits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from database import Database
from models import audit
from settings import ExitCode, Settings
from tests.api_server import PASSWORD, Api, Person
from tests.stacks import vedette


async def run(settings: Settings, database: Database, *arguments: str) -> Any:
    done = await asyncio.to_thread(vedette, settings.data, *arguments, "--json", DATABASE_URL=database.url)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def latest_action(database: Database, person: Person) -> tuple[str, str]:
    async with database.connection() as connection:
        entry = (await audit.list_entries(connection, person.account.id))[0]
    return entry.actor.kind, entry.action


async def test_a_reset_password_logs_in_and_ends_all_sessions(
    api: Api, settings: Settings, database: Database, long_memory: None
) -> None:
    person = await api.person()
    assert (await person.session.get("/api/auth/me")).status_code == 200
    printed = await run(settings, database, "accounts", "reset-password", person.account.email)
    assert await latest_action(database, person) == ("operator", "account.password_changed")
    async with asyncio.timeout(30):
        while (await person.session.get("/api/auth/me")).status_code != 401:
            await asyncio.sleep(0.01)
    body = {"email": person.account.email, "password": PASSWORD}
    assert (await api.http.post("/api/auth/login", json=body)).status_code == 401
    body["password"] = printed["password"]
    assert (await api.http.post("/api/auth/login", json=body)).status_code == 200


async def test_a_password_from_a_file_is_set_and_not_printed(
    api: Api, settings: Settings, database: Database, tmp_path: Path
) -> None:
    person = await api.person()
    (tmp_path / "password").write_text("from the file 123\n")
    email = person.account.email
    printed = await run(
        settings, database, "accounts", "reset-password", email, "--password-file", str(tmp_path / "password")
    )
    assert printed == {"email": email}
    body = {"email": email, "password": "from the file 123"}
    assert (await api.http.post("/api/auth/login", json=body)).status_code == 200


async def test_a_key_that_an_operator_revokes_stops_at_once(
    api: Api, settings: Settings, database: Database, long_memory: None
) -> None:
    person = await api.person()
    (key,) = (await person.key.get("/api/keys")).json()["keys"]
    await run(settings, database, "keys", "revoke", key["id"])
    async with asyncio.timeout(30):
        while (await person.key.get("/api/keys")).status_code != 401:
            await asyncio.sleep(0.01)
    assert await latest_action(database, person) == ("operator", "key.revoked")


async def test_granted_credits_arrive_once_for_a_reference(
    api: Api, settings: Settings, database: Database
) -> None:
    person = await api.person(credits=1)
    for repeated in (False, True):
        printed = await run(
            settings, database, "credits", "grant", person.account.email, "500", "--reference", "invoice-7"
        )
        assert (printed["amount"], printed["balance"], printed["repeated"]) == (500, 501, repeated)
    assert (await person.key.get("/api/credits")).json()["balance"] == 501
    assert await latest_action(database, person) == ("operator", "credits.granted")


@pytest.mark.parametrize(
    "arguments",
    [
        ("accounts", "reset-password", "nobody@example.com"),
        ("keys", "revoke", "not-an-id"),
        ("keys", "revoke", "01a1fcc5-d868-7fa3-8981-74da2bfa90d2"),
        ("credits", "grant", "nobody@example.com", "5"),
    ],
)
async def test_what_does_not_exist_is_said_in_one_line(
    settings: Settings, database: Database, arguments: tuple[str, ...]
) -> None:
    done = await asyncio.to_thread(vedette, settings.data, *arguments, DATABASE_URL=database.url)
    assert done.returncode == ExitCode.USAGE
    assert ": There is no such " in done.stderr
    assert len(done.stderr.splitlines()) == 1
