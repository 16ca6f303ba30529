"""The settings of a command, and its database and keyring."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sealing import Keyring
    from settings import Settings


def read_settings() -> Settings:
    """Read the settings of the environment, and warn about names that are not read."""
    import settings
    from services.operator.configuration import warnings

    for line in warnings():
        print(line, file=sys.stderr)
    return settings.load()


def with_running_servers(settings: Settings) -> Settings:
    """Add the servers of the stack running on the data folder, where the settings name none."""
    from pydantic import SecretStr

    from embedded import folder

    if settings.database_url is not None and settings.temporal_address is not None:
        return settings
    running = folder.running(settings.data)
    if running is None:
        return settings
    update: dict[str, Any] = {}
    if settings.database_url is None:
        update["database_url"] = SecretStr(running.database_url)
    if settings.temporal_address is None:
        update["temporal_address"] = running.temporal_address
    return settings.model_copy(update=update)


def connected_settings() -> Settings:
    """Return settings whose database responds.

    Raises:
        StartError: if neither the environment nor a running stack names one, or it does not respond.
    """
    from services.operator.connections import check_database
    from settings import ExitCode, StartError

    settings = with_running_servers(read_settings())
    if settings.database_url is None:
        raise StartError(
            f"No stack runs over the data folder {settings.data}, and DATABASE_URL is not set. "
            "Start one with `vedette up`, or name its folder in VEDETTE_DATA.",
            ExitCode.DATABASE,
        )
    asyncio.run(check_database(database_url(settings)))
    return settings


def serving_settings() -> Settings:
    """Return settings whose database responds and has a schema that this release works with.

    Raises:
        StartError: as `connected_settings`, or for its schema.
    """
    from services.operator.connections import check_schema

    settings = connected_settings()
    asyncio.run(check_schema(database_url(settings)))
    return settings


def database_url(settings: Settings) -> str:
    """Return the URL of the database, for settings that have one."""
    assert settings.database_url is not None
    return settings.database_url.get_secret_value()


def open_keyring(settings: Settings, *, may_make_key: bool = False) -> Keyring:
    """Load the keyring, and check that it opens the database's values.

    Raises:
        StartError: there is no key, or it is another one.
    """
    from services.operator.administration import open_keyring

    return asyncio.run(open_keyring(database_url(settings), settings, may_make_key=may_make_key))
