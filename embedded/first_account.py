"""The first account of an installation: made on the first start, its credentials in files for its owner."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from database import Database
from embedded.folder import write_private
from models.accounts import accounts
from models.installation import root_key
from settings import Settings


@dataclass(frozen=True)
class Credentials:
    """The content of `first-account.json`."""

    url: str
    email: str
    password: str
    api_key: str


class CredentialsError(Exception):
    """The file of credentials is unusable; the message has the reason. The account itself is not affected."""


def credentials_file(data: Path) -> Path:
    """Return the file of the credentials."""
    return data / "first-account.json"


def header_file(data: Path) -> Path:
    """Return the file with the key as a header, for `curl -H @file`, so that no command line shows it."""
    return data / "first-account.header"


async def ensure_first_account(settings: Settings, database_url: str) -> bool:
    """Make sure that the right root key and an account exist; the account's credentials go into the file.

    They are on disk under a temporary name before the account is committed, and renamed afterwards. So a
    crash in between loses neither.

    Args:
        settings: with the real data folder and port.
        database_url: a migrated database.

    Returns:
        Whether the account was made just now.

    Raises:
        StartError: if there are accounts but the key that sealed their data is missing, or is another one.
    """
    path = credentials_file(settings.data)
    pending = path.with_name(f"{path.name}.pending")
    database = Database(database_url, name="vedette start", size=2)
    await database.open()
    try:
        async with database.connection() as connection:
            await root_key.open_keyring(connection, settings, may_make_key=True)
        async with database.transaction() as connection:
            first = await accounts.create_first_account(connection)
            if first is not None:
                _write(pending, Credentials(url=settings.address, **asdict(first)))
    finally:
        await database.close()
    if pending.exists():
        pending.replace(path)
    return first is not None


def refresh_credentials(settings: Settings) -> Credentials | None:
    """Update the address in the file and the header beside it; None if the owner removed them.

    Raises:
        CredentialsError: the content of the file is unusable; it stays unchanged.
    """
    path, header = credentials_file(settings.data), header_file(settings.data)
    try:
        found = _read_credentials(path)
        if found is None:
            header.unlink(missing_ok=True)
            return None
        if found.url != settings.address:
            found = replace(found, url=settings.address)
            _write(path, found)
        write_private(header, f"Authorization: Bearer {found.api_key}\n")
    except OSError as error:
        raise CredentialsError(f"{error.filename}: {error.strerror}") from None
    return found


def _read_credentials(path: Path) -> Credentials | None:
    try:
        found: Any = json.loads(path.read_bytes())
        credentials = Credentials(**found)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):  # not JSON, not an object, or other names
        raise CredentialsError(f"{path} is not what a first start wrote there") from None
    if not all(isinstance(value, str) for value in found.values()):
        raise CredentialsError(f"{path} is not what a first start wrote there")
    return credentials


def _write(path: Path, credentials: Credentials) -> None:
    write_private(path, json.dumps(asdict(credentials), indent=2) + "\n")
