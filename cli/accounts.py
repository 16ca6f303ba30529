"""`vedette accounts`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.connecting import connected_settings, database_url
from cli.credits import MOST_CREDITS
from cli.errors import BadInput, naming
from cli.groups import new_group
from cli.printing import Json, moment, print_fields, print_table, printable

commands = new_group("Accounts.")

PasswordFile = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, readable=True, help="Else one is generated.")
]
Email = Annotated[str, typer.Argument(metavar="EMAIL")]
_SHOWN = {
    "email": "EMAIL", "account": "EMAIL", "email_taken": "EMAIL", "name": "--name",
    "password": "--password-file",
}  # fmt: skip


@commands.command("create")
def accounts_create(
    email: Email,
    name: Annotated[str | None, typer.Option(help="The name of the person.")] = None,
    credit: Annotated[
        int | None, typer.Option("--credits", min=0, max=MOST_CREDITS, help="The first balance.")
    ] = None,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> None:
    """Create an account, and print its password if it was generated."""
    from services.operator.administration import create_account

    settings = connected_settings()
    granted = settings.signup_credits if credit is None else credit
    password = _read_password(password_file)
    with naming(_SHOWN):
        created = asyncio.run(
            create_account(database_url(settings), email, name=name, granted=granted, password=password)
        )
    print_fields(created, as_json)


@commands.command("reset-password")
def accounts_reset_password(
    email: Email,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> None:
    """Set a new password for an account, and end all its sessions."""
    from services.operator.administration import reset_password

    url, password = database_url(connected_settings()), _read_password(password_file)
    with naming(_SHOWN):
        reset = asyncio.run(reset_password(url, email, password=password))
    print_fields(reset, as_json)


@commands.command("list")
def accounts_list(
    limit: Annotated[int, typer.Option(min=1, help="The most to list.")] = 100, as_json: Json = False
) -> None:
    """List the accounts, newest first."""
    from services.operator.inventory import list_accounts

    found = asyncio.run(list_accounts(database_url(connected_settings()), limit))
    if as_json:
        told = [one | {"id": str(one["id"]), "created_at": _write_time(one["created_at"])} for one in found]
        print(json.dumps({"accounts": told}, indent=2))
        return
    rows = [
        [str(one["id"]), one["email"], printable(one["name"]), f"{one['credits']:,}", f"{one['keys']:,}",
         moment(_write_time(one["created_at"]))]
        for one in found
    ]  # fmt: skip
    head = ["id", "email", "name", "credits", "keys", "created"]
    print_table(head, rows, "There are no accounts.")


def _write_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _read_password(file: Path | None) -> str | None:
    try:
        return file.read_text("utf-8").rstrip("\r\n") if file else None
    except UnicodeDecodeError:
        raise BadInput("--password-file: This is not UTF-8 text.") from None
