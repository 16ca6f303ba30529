"""The first account: made once, its credentials never lost, its file never left open to others."""

from __future__ import annotations

import json
import stat
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from database import Database
from embedded.first_account import CredentialsError, ensure_first_account, refresh_credentials
from models.accounts import accounts, keys
from settings import ExitCode, Settings, StartError

Ensure = Callable[[], Awaitable[bool]]


@pytest.fixture
async def ensure(database: Database, settings: Settings) -> Ensure:
    """The start's call, over an installation that has no account yet."""
    async with database.connection() as connection:
        await connection.execute("truncate accounts, root_key_canary cascade")
    for path in settings.data.iterdir():
        path.unlink()
    return lambda: ensure_first_account(settings, database.url)


def credentials(settings: Settings) -> dict[str, Any]:
    return json.loads((settings.data / "first-account.json").read_text())


async def works(database: Database, key: str) -> bool:
    async with database.connection() as connection:
        return await keys.find_live(connection, key) is not None


async def test_the_first_start_makes_an_account_whose_key_works(
    ensure: Ensure, settings: Settings, database: Database
) -> None:
    assert await ensure()
    account = credentials(settings)
    assert account["url"] == settings.address
    assert await works(database, account["api_key"])
    assert {path.name for path in settings.data.iterdir()} == {"first-account.json", "secret.key"}
    for path in settings.data.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_next_start_makes_none(ensure: Ensure, settings: Settings) -> None:
    await ensure()
    before = credentials(settings)
    assert not await ensure()
    assert credentials(settings) == before


async def test_credentials_of_a_start_that_was_killed_after_the_commit_are_found(
    ensure: Ensure, settings: Settings, database: Database
) -> None:
    await ensure()
    file = settings.data / "first-account.json"
    file.rename(file.with_name("first-account.json.pending"))  # as it is between commit and rename
    assert not await ensure()
    assert await works(database, credentials(settings)["api_key"])


async def test_a_start_that_was_killed_before_the_commit_is_made_good(
    ensure: Ensure, settings: Settings, database: Database
) -> None:
    (settings.data / "first-account.json.pending").write_text('{"api_key": "of no account"}')
    assert await ensure()
    assert await works(database, credentials(settings)["api_key"])


async def test_a_file_of_an_earlier_database_is_replaced(
    ensure: Ensure, settings: Settings, database: Database
) -> None:
    (settings.data / "first-account.json").write_text('{"api_key": "of no account"}')
    assert await ensure()
    assert await works(database, credentials(settings)["api_key"])


async def test_when_the_address_changes_so_does_the_one_in_the_file(
    ensure: Ensure, settings: Settings
) -> None:
    await ensure()
    before = credentials(settings)
    refresh_credentials(settings.model_copy(update={"port": 9000}))
    assert credentials(settings) == {**before, "url": "http://127.0.0.1:9000"}


async def test_the_key_is_in_a_header_file_for_its_owner_alone(ensure: Ensure, settings: Settings) -> None:
    await ensure()
    refresh_credentials(settings)
    header = settings.data / "first-account.header"
    assert header.read_text() == f"Authorization: Bearer {credentials(settings)['api_key']}\n"
    assert stat.S_IMODE(header.stat().st_mode) == 0o600


async def test_where_the_owner_removed_the_credentials_the_header_goes_too(
    ensure: Ensure, settings: Settings
) -> None:
    await ensure()
    refresh_credentials(settings)
    (settings.data / "first-account.json").unlink()
    assert refresh_credentials(settings) is None
    assert {path.name for path in settings.data.iterdir()} == {"secret.key"}


GOOD = {"url": "u", "email": "e", "password": "p", "api_key": "k"}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "17", '"text"', "\0", "{}", '{"api_key": "k"}',
        json.dumps(GOOD | {"api_key": 1}), json.dumps(GOOD | {"note": "mine"}), json.dumps(GOOD)[:-1],
    ],
)  # fmt: skip
async def test_a_file_that_was_spoilt_is_told_of_and_left_alone(
    ensure: Ensure, settings: Settings, text: str
) -> None:
    file = settings.data / "first-account.json"
    file.write_text(text)
    with pytest.raises(CredentialsError, match=r"first-account\.json is not what"):
        refresh_credentials(settings)
    assert file.read_text() == text


async def test_a_file_that_cannot_be_read_is_told_of(ensure: Ensure, settings: Settings) -> None:
    folder = settings.data / "first-account.json"
    folder.mkdir()
    with pytest.raises(CredentialsError, match=r"first-account\.json: Is a directory"):
        refresh_credentials(settings)
    folder.rmdir()


async def test_a_lost_key_is_refused_and_none_is_made(
    ensure: Ensure, settings: Settings, database: Database
) -> None:
    await ensure()
    (settings.data / "secret.key").unlink()
    with pytest.raises(StartError) as caught:
        await ensure()
    assert caught.value.exit_code == ExitCode.SECRET_KEY
    assert not (settings.data / "secret.key").exists()
    async with database.connection() as connection:
        assert await accounts.any_exists(connection)
