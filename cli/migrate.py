"""`vedette migrate`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli.connecting import connected_settings, database_url
from cli.printing import Json, print_data

if TYPE_CHECKING:
    from services.operator.migration_plan import PlannedMigration
    from settings import Settings


def migrate(
    first_account: Annotated[
        bool,
        typer.Option(
            "--first-account", help="Create the first account too; its key goes into the data folder."
        ),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would be done and locked, and change nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the database to the newest schema."""
    from migrations.revisions import head
    from services.operator import connections, migration_plan

    settings = connected_settings()
    if plan:
        pending = asyncio.run(migration_plan.plan_migration(database_url(settings)))
        print_data([asdict(one) for one in pending], "\n".join(_lines_of(pending)), as_json)
        return
    connections.migrate(database_url(settings))
    done, lines = {"revision": head()}, [f"The database is at {head()}."]
    file = _first_account(settings) if first_account else None
    if file is not None:
        done["first_account"] = file
        lines.append(f"E-mail, password and key of the first account are in {file}.")
    print_data(done, "\n".join(lines), as_json)


def _lines_of(pending: Sequence[PlannedMigration]) -> list[str]:
    if not pending:
        return ["There is nothing to migrate."]
    lines: list[str] = []
    for one in pending:
        lines.append(f"{one.revision}  {one.title}")
        if one.locks is None:
            lines.append("      Stop all processes first.")
            continue
        lines.append(f"      Releases from {one.works_from} on keep working.")
        for lock in one.locks:
            size = f"about {lock.rows:,} rows, {lock.bytes / 1_048_576:,.0f} MiB"
            lines.append(f"      Locks {lock.table} for a moment ({lock.mode}; {size}).")
    return [*lines, "A migration waits for a lock at most two seconds, lets others through, and tries again."]


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
