"""A process works with the schemas of its release alone: with another it does not start, nor goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from database import Database
from migrations.revisions import head, schema_problem
from models.installation.schema import Schema
from sealing import Keyring
from settings import ExitCode, Settings, StartError
from temporal.client import connect
from tests.api_server import running
from tests.automations.engine import until, working
from tests.stacks import failed, vedette

NEWER = Schema("9999", "9998")
HEAD = Schema(head(), head())
Migrate = Callable[[Schema], Awaitable[None]]


@pytest.fixture
async def migrate(database: Database) -> AsyncGenerator[Migrate]:
    """Have the database say that it has another schema."""

    async def set_schema(schema: Schema) -> None:
        async with database.connection() as connection:
            await connection.execute("update schema_revision set version_num = %s", (schema.revision,))
            await connection.execute("update alembic_version set version_num = %s", (schema.works_from,))

    yield set_schema
    await set_schema(HEAD)


REMEDIES = {
    Schema("0001", "0001"): "Run `vedette migrate`.",
    None: "Run `vedette migrate`.",
    NEWER: "Start the release that the database was migrated for.",
}


@pytest.mark.parametrize("found", REMEDIES)
def test_another_schema_is_named_with_the_one_that_is_needed_and_what_to_do(found: Schema | None) -> None:
    problem = schema_problem(found)
    assert problem is not None and problem.endswith(REMEDIES[found])
    assert f"at {found.revision if found else 'no revision'}" in problem
    assert f"; this release needs {head()}." in problem


@pytest.mark.parametrize("revision", [head(), "9999"])
@pytest.mark.parametrize("works_from", ["0043", head()])
def test_a_release_works_with_newer_schemas_that_serve_it(revision: str, works_from: str) -> None:
    assert schema_problem(Schema(revision, works_from)) is None


@pytest.mark.parametrize("command", ["api", "worker"])
async def test_no_process_starts_with_another_schema(
    command: str, settings: Settings, database: Database, migrate: Migrate
) -> None:
    await migrate(NEWER)
    names = {"DATABASE_URL": database.url, "TEMPORAL_ADDRESS": "127.0.0.1:9"}
    done = await asyncio.to_thread(vedette, settings.data, command, **names)
    assert failed(done, ExitCode.DATABASE) == schema_problem(NEWER)


async def test_an_api_whose_schema_changes_is_not_ready(settings: Settings, migrate: Migrate) -> None:
    async with running(settings) as api:
        await migrate(NEWER)
        answer = await api.http.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
        assert answer.json()["checks"]["schema"] == schema_problem(NEWER)
        await migrate(HEAD)
        assert (await api.http.get("/readyz")).status_code == 200


async def test_a_worker_whose_schema_changes_claims_nothing_more_and_ends(
    live_settings: Settings, database: Database, keyring: Keyring, migrate: Migrate
) -> None:
    client = await connect(live_settings, keyring)

    async def is_alive(expected: bool) -> bool:
        async with database.connection() as connection:
            found = await (await connection.execute("select from workers")).fetchone()
        return (found is not None) is expected

    with pytest.raises(StartError) as caught:
        async with working(live_settings, client, database, keyring):
            await until(lambda: is_alive(True))
            await migrate(NEWER)
            await until(lambda: is_alive(False))
    assert caught.value.exit_code == ExitCode.DATABASE and str(caught.value) == schema_problem(NEWER)
