"""The first account of an installation: made on the first start, its credentials in a file for its owner."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from database import Database
from embedded.folder import write_private
from models import accounts, root_key
from settings import Settings


async def ensure_first_account(settings: Settings, database_url: str) -> bool:
    """See that there are a root key and an account; the file gets `{url, email, password, api_key}`.

    The credentials are on disk before the account is committed, under a name that becomes the final one
    afterwards: a crash in between loses neither. When the address changes, so does the `url` in the file.

    Args:
        settings: with the real data folder and port.
        database_url: a migrated database.

    Returns:
        Whether the account was made just now.

    Raises:
        StartError: if there are accounts but the key that sealed their data is gone, or is another one.
    """
    path = settings.data / "first-account.json"
    pending = path.with_name("first-account.json.pending")
    database = Database(database_url, name="vedette start", size=2)
    await database.open()
    try:
        async with database.connection() as connection:
            await root_key.open_keyring(connection, settings, may_make_key=True)
        async with database.transaction() as connection:
            first = await accounts.create_first_account(connection)
            if first is not None:
                _write(pending, {"url": settings.address, **asdict(first)})
    finally:
        await database.close()
    if pending.exists():
        pending.replace(path)
    elif path.exists():
        with suppress(ValueError, TypeError, KeyError):  # what its owner has made of it is not ours to mend
            credentials = json.loads(path.read_bytes())
            if credentials["url"] != settings.address:
                _write(path, {**credentials, "url": settings.address})
    return first is not None


def _write(path: Path, credentials: dict[str, str]) -> None:
    write_private(path, json.dumps(credentials, indent=2) + "\n")
