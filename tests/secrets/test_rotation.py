"""`vedette secrets rotate`: what older keys have sealed opens without them afterwards."""

from __future__ import annotations

import json
import os
import secrets as chance
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import SecretStr
from sqlmodel import SQLModel

from database import Database
from migrations.upgrade import load_tables
from models.accounts import secrets
from models.audit import Actor
from models.identifiers import new_id
from models.installation import processes, root_key
from models.installation.key_rotation import BATCH, CANARY, KEPT, reseal_batch
from models.webhooks import endpoints
from models.webhooks.endpoints import EndpointSettings
from sealing import Keyring
from services.operator.administration import ResealCounts, reseal
from settings import ExitCode, Settings
from tests.api_server import Api, Person, running
from tests.stacks import vedette

OLD, NEW = chance.token_urlsafe(32), chance.token_urlsafe(32)
# These expire by themselves.
SHORT_LIVED = {
    ("lookup_answers", "sealed"), ("chat_conversations", "sealed"), ("chat_messages", "sealed"),
    ("chat_events", "sealed"), ("chat_approvals", "sealed"), ("chat_approvals", "sealed_edit"),
}  # fmt: skip


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    """An API that seals with the old key, and holds the new one."""
    async with running(settings, secret_key=SecretStr(f"{OLD},{NEW}")) as api:
        yield api


@pytest.fixture
async def person(api: Api, database: Database) -> AsyncGenerator[Person]:
    """Someone with two secrets, a workflow and an endpoint, and nobody else has any."""
    person = await api.person()
    for name in ("A", "B"):
        await person.key.post("/api/workflows/secrets", json={"name": name, "value": f"value of {name}"})
    await person.key.post("/api/workflows", json={"name": "w"})
    async with database.transaction() as connection:
        actor = Actor(person.account.id, "system", name="test")
        chosen = EndpointSettings("https://example.com/hook", ["*"], None, {"X-Team": "ops"}, None)
        await endpoints.create(connection, Keyring([OLD]), actor, chosen, "whsec_c2VjcmV0")
    yield person
    async with database.connection() as connection:
        await connection.execute("delete from accounts where id = %s", (person.account.id,))
        await connection.execute("delete from root_key_canary")
        await root_key.open_keyring(connection, api.services.settings)


def rotate(settings: Settings, database: Database, keys: str) -> tuple[int, dict[str, Any]]:
    done = vedette(
        settings.data, "secrets", "rotate", "--json", DATABASE_URL=database.url, VEDETTE_SECRET_KEY=keys
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def counts(secrets: int, tokens: int, webhooks: int, canary: int) -> dict[str, Any]:
    """Return what is said where every key opens."""
    counted = {"secrets": secrets, "ingest_tokens": tokens, "webhooks": webhooks, "canary": canary}
    return {noun: {"resealed": resealed, "unreadable": 0} for noun, resealed in counted.items()}


async def opened(database: Database, person: Person, key: str) -> dict[str, str]:
    async with database.connection() as connection:
        return await secrets.load_values(connection, Keyring([key]), person.account.id, ["A", "B"])


async def test_all_opens_with_the_new_key_alone(
    settings: Settings, database: Database, person: Person
) -> None:
    before = (await person.key.get("/api/workflows")).json()
    assert rotate(settings, database, f"{NEW},{OLD}") == (0, counts(2, 1, 1, 1))
    assert await opened(database, person, NEW) == {"A": "value of A", "B": "value of B"}
    async with running(settings, secret_key=SecretStr(NEW)) as api:
        after = await (await api.client(x_api_key=person.secret)).get("/api/workflows")
    assert after.json() == before


async def test_a_second_time_nothing_is_left_to_do(
    settings: Settings, database: Database, person: Person
) -> None:
    rotate(settings, database, f"{NEW},{OLD}")
    assert rotate(settings, database, f"{NEW},{OLD}") == (0, counts(0, 0, 0, 0))


async def test_with_one_key_there_is_nothing_to_do(
    settings: Settings, database: Database, person: Person
) -> None:
    assert rotate(settings, database, OLD) == (0, counts(0, 0, 0, 0))


async def test_what_no_key_opens_is_told_with_1_and_stays_as_it_is(
    settings: Settings, database: Database, person: Person
) -> None:
    lost = Keyring(["a key of thirty-two characters that is lost"]).seal("secrets", b"")
    async with database.connection() as connection:
        await connection.execute("update secrets set sealed = %s where name = 'A'", (lost,))
    environment = {"DATABASE_URL": database.url, "VEDETTE_SECRET_KEY": f"{NEW},{OLD}"}
    done = vedette(settings.data, "secrets", "rotate", **environment)
    assert (done.returncode, done.stdout.splitlines()) == (1, [
        "secrets: 1 sealed anew, 1 that no key of the ring opens",
        "ingest_tokens: 1 sealed anew",
        "webhooks: 1 sealed anew",
        "canary: 1 sealed anew",
    ])  # fmt: skip
    async with database.connection() as connection:
        cursor = await connection.execute("select 1 from secrets where sealed = %s", (lost,))
        assert await cursor.fetchone() is not None


async def test_without_the_old_key_nothing_is_sealed_anew_and_nothing_starts(
    settings: Settings, database: Database, person: Person
) -> None:
    environment = {"DATABASE_URL": database.url, "VEDETTE_SECRET_KEY": NEW}
    done = vedette(settings.data, "secrets", "rotate", **environment)
    assert (done.returncode, done.stdout) == (ExitCode.SECRET_KEY, "")
    assert "VEDETTE_SECRET_KEY holds another key" in done.stderr
    assert await opened(database, person, OLD) == {"A": "value of A", "B": "value of B"}


async def test_a_rotation_cut_short_needs_the_old_key_still(
    settings: Settings, database: Database, person: Person
) -> None:
    ring = Keyring([NEW, OLD])
    async with database.connection() as connection:
        kept = [kept for kept in KEPT.values() if kept is not CANARY]
        for kind in kept:
            assert (await reseal_batch(connection, ring, kind, kind.start)).resealed
        assert not await root_key.is_right(connection, Keyring([NEW]))
        assert await root_key.is_right(connection, Keyring([OLD]))


async def test_many_are_sealed_anew_in_batches(database: Database, person: Person) -> None:
    old, number = Keyring([OLD]), 2 * BATCH + 1
    account = person.account.id
    rows = [
        (account, name, old.seal("secrets", name.encode(), f"{account}/{name}"))
        for name in (f"N{place}" for place in range(number - 2))
    ]
    async with database.connection() as connection:
        await connection.cursor().executemany(
            "insert into secrets (account_id, name, sealed, created_at, updated_at)"
            " values (%s, %s, %s, now(), now())",
            rows,
        )
    done = await reseal(database.url, Keyring([NEW, OLD]))
    assert done["secrets"] == ResealCounts(number, 0)
    async with database.connection() as connection:
        names = [name for _, name, _ in rows]
        values = await secrets.load_values(connection, Keyring([NEW]), account, names)
    assert values == {name: name for name in names}


def test_every_sealed_column_is_sealed_anew_or_short_lived() -> None:
    load_tables()
    columns = {
        (table.name, column.name)
        for table in SQLModel.metadata.tables.values()
        for column in table.columns
        if "sealed" in column.name
    }
    assert columns == {(kept.table, kept.column) for kept in KEPT.values()} | SHORT_LIVED


async def test_nothing_is_sealed_anew_while_a_process_lacks_the_new_key(
    settings: Settings, database: Database, person: Person
) -> None:
    names = {"DATABASE_URL": database.url, "VEDETTE_SECRET_KEY": f"{NEW},{OLD}"}
    async with running(settings, secret_key=SecretStr(OLD)):
        refused = vedette(settings.data, "secrets", "rotate", **names)
    assert refused.returncode == ExitCode.SECRET_KEY
    assert (
        f"api {socket.gethostname()}/{os.getpid()}" in refused.stderr
        and "Nothing was changed" in refused.stderr
    )
    assert await opened(database, person, OLD) == {"A": "value of A", "B": "value of B"}
    assert rotate(settings, database, f"{NEW},{OLD}") == (0, counts(2, 1, 1, 1))


async def test_a_process_that_fell_silent_holds_up_no_rotation(
    settings: Settings, database: Database, person: Person
) -> None:
    async with database.connection() as connection:
        await processes.announce(connection, new_id(), "worker gone/1", Keyring([OLD]).fingerprints)
        await connection.execute(
            "update processes set seen_at = now() - interval '1 minute' where name like '%gone%'"
        )
    assert rotate(settings, database, f"{NEW},{OLD}") == (0, counts(2, 1, 1, 1))


async def test_what_is_announced_is_no_key(settings: Settings, database: Database, api: Api) -> None:
    async with database.connection() as connection:
        rows = await (await connection.execute("select * from processes where name like 'api %'")).fetchall()
    assert rows and not [key for key in (OLD, NEW) if key in str(rows)]
    assert [row["fingerprints"] for row in rows] == [Keyring([OLD, NEW]).fingerprints]
