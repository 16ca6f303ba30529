"""A start with another root key than the one that the data is sealed with is refused, whoever starts."""

from __future__ import annotations

import secrets as chance
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import SecretStr

from api.app import create_app
from database import Database
from embedded.temporal import Temporal
from models.accounts import secrets
from models.audit import Actor
from models.installation import root_key
from models.installation.root_key import open_keyring
from sealing import Keyring
from settings import ExitCode, Settings, StartError
from tests.api_server import Api, Person, running
from tests.stacks import vedette

RIGHT, OTHER = chance.token_urlsafe(32), chance.token_urlsafe(32)


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    """An API that has sealed with the right key."""
    async with running(settings, secret_key=SecretStr(RIGHT)) as api:
        yield api


@pytest.fixture(scope="module")
async def person(api: Api) -> Person:
    """Someone, so that the installation has an account."""
    return await api.person()


def keyed(settings: Settings, keys: str) -> Settings:
    return settings.model_copy(update={"secret_key": SecretStr(keys)})


async def forget_canary(database: Database) -> None:
    """Make the database one of a release that had no canary."""
    async with database.connection() as connection:
        await connection.execute("delete from root_key_canary")


async def refusal(database: Database, settings: Settings) -> str:
    async with database.connection() as connection:
        with pytest.raises(StartError) as caught:
            await open_keyring(connection, settings, may_make_key=True)
    assert caught.value.exit_code == ExitCode.SECRET_KEY
    return str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        ("up",), ("api",), ("worker",), ("secrets", "rotate"), ("persons", "erase", "ada@example.com"),
        ("persons", "suppress", "ada@example.com"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_command_that_opens_what_is_sealed_refuses_another_key(
    command: tuple[str, ...], database_url: str, person: Person, settings: Settings, temporal_server: Temporal
) -> None:
    names = {"DATABASE_URL": database_url, "TEMPORAL_ADDRESS": temporal_server.address}
    done = vedette(settings.data, *command, VEDETTE_SECRET_KEY=OTHER, **names)
    assert done.returncode == ExitCode.SECRET_KEY, done.stderr
    assert done.stderr.startswith("VEDETTE_SECRET_KEY holds another key")
    assert "secrets rotate" in done.stderr and "Traceback" not in done.stderr
    assert OTHER not in done.stderr


async def test_the_application_itself_refuses_another_key(
    database: Database, person: Person, settings: Settings
) -> None:
    app = create_app(keyed(settings, OTHER))
    with pytest.raises(StartError, match="another key"):
        async with app.router.lifespan_context(app):
            pass


async def test_a_file_with_another_key_is_named_by_its_path(
    database: Database, person: Person, settings: Settings
) -> None:
    file = settings.data / "secret.key"
    file.write_text(OTHER)
    try:
        assert str(file) in await refusal(database, settings)
    finally:
        file.unlink()


async def test_any_key_of_the_ring_will_do(database: Database, person: Person, settings: Settings) -> None:
    async with database.connection() as connection:
        for keys in (RIGHT, f"{RIGHT},{OTHER}", f"{OTHER},{RIGHT}"):
            await open_keyring(connection, keyed(settings, keys))


async def test_no_key_is_made_beside_a_canary(database: Database, api: Api, settings: Settings) -> None:
    """Also where no account is left."""
    async with database.connection() as connection:
        await connection.execute("delete from accounts")
    assert "key is gone" in await refusal(database, settings)
    assert not (settings.data / "secret.key").exists()


async def test_readyz_tells_of_another_key(api: Api, database: Database, settings: Settings) -> None:
    assert (await api.http.get("/readyz")).json()["checks"]["secrets"] == "ok"
    await forget_canary(database)
    async with database.connection() as connection:
        await open_keyring(connection, keyed(settings, OTHER))
    ready = (await api.http.get("/readyz")).json()
    assert ready["status"] == "degraded"
    assert ready["checks"]["secrets"] == "sealed with another root key than this process has"
    await forget_canary(database)
    async with database.connection() as connection:
        await open_keyring(connection, keyed(settings, RIGHT))


def test_doctor_tells_of_another_key(person: Person, database_url: str, settings: Settings) -> None:
    names = {"DATABASE_URL": database_url, "VEDETTE_SECRET_KEY": OTHER}
    done = vedette(settings.data, "doctor", **names)
    assert "broken   secret key   VEDETTE_SECRET_KEY opens nothing in the database" in done.stdout


class TestAnInstallationFromBeforeTheCanary:
    @pytest.fixture(autouse=True)
    async def sealed(self, api: Api, database: Database) -> AsyncGenerator[Any]:
        """Secrets that the right key and a lost one have sealed, and no canary."""
        account = (await api.person()).account
        actor = Actor(account.id, "system", name="system")
        async with database.connection() as connection:
            await secrets.put_secret(connection, Keyring([RIGHT]), actor, "KEPT", "value")
            await secrets.put_secret(connection, Keyring([chance.token_urlsafe(32)]), actor, "LOST", "value")
        await forget_canary(database)
        yield
        async with database.connection() as connection:
            await connection.execute("delete from secrets")
            await open_keyring(connection, keyed(api.services.settings, RIGHT))

    async def test_the_key_that_opens_its_values_gets_a_canary(
        self, database: Database, settings: Settings
    ) -> None:
        async with database.connection() as connection:
            await open_keyring(connection, keyed(settings, RIGHT))
            await connection.execute("delete from secrets")
            assert not await root_key.is_right(connection, Keyring([OTHER]))

    async def test_another_key_is_refused_and_gets_none(self, database: Database, settings: Settings) -> None:
        assert "another key" in await refusal(database, keyed(settings, OTHER))
        async with database.connection() as connection:
            cursor = await connection.execute("select 1 from root_key_canary")
            assert await cursor.fetchone() is None


async def test_a_database_that_is_not_migrated_is_told_so(database: Database, settings: Settings) -> None:
    async with database.transaction() as connection:
        await connection.execute("alter table root_key_canary rename to elsewhere")
        with pytest.raises(StartError, match="vedette migrate"):
            async with connection.transaction():
                await open_keyring(connection, keyed(settings, RIGHT))
        await connection.execute("alter table elsewhere rename to root_key_canary")
