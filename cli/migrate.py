"""`vedette migrate`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.connecting import connected_settings, database_url
from cli.printing import Json, print_data

if TYPE_CHECKING:
    from settings import Settings


def migrate(
    first_account: Annotated[
        bool,
        typer.Option(
            "--first-account", help="Create the first account too; its key goes into the data folder."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the database to the newest schema."""
    from migrations.upgrade import head
    from services.operator import connections

    settings = connected_settings()
    connections.migrate(database_url(settings))
    done, lines = {"revision": head()}, [f"The database is at {head()}."]
    file = _first_account(settings) if first_account else None
    if file is not None:
        done["first_account"] = file
        lines.append(f"E-mail, password and key of the first account are in {file}.")
    print_data(done, "\n".join(lines), as_json)


def _first_account(settings: Settings) -> str | None:
    """Make sure that an account exists; return the file of the first one's credentials, if it exists."""
    from embedded import folder
    from embedded.first_account import (
        CredentialsError,
        credentials_file,
        ensure_first_account,
        refresh_credentials,
    )

    folder.prepare(settings.data)
    asyncio.run(ensure_first_account(settings, database_url(settings)))
    try:
        found = refresh_credentials(settings)
    except CredentialsError as error:
        print(f"warning: {error}; `vedette keys create` makes another key", file=sys.stderr)
        return None
    return str(credentials_file(settings.data)) if found else None
