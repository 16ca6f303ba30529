"""`vedette accounts`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.connecting import connected_settings, database_url
from cli.groups import new_group
from cli.printing import Json, print_fields

commands = new_group("Accounts.")


@commands.command("create")
def accounts_create(
    email: str,
    name: Annotated[str | None, typer.Option(help="Of the person.")] = None,
    credit: Annotated[int | None, typer.Option("--credits", min=0, help="The first balance.")] = None,
    password_file: Annotated[Path | None, typer.Option(exists=True, help="Else one is generated.")] = None,
    as_json: Json = False,
) -> None:
    """Create an account, and print its password if it was generated."""
    from embedded.administration import create_account

    settings = connected_settings()
    granted = settings.signup_credits if credit is None else credit
    password = password_file.read_text("utf-8").rstrip("\r\n") if password_file else None
    created = asyncio.run(
        create_account(database_url(settings), email, name=name, granted=granted, password=password)
    )
    print_fields(created, as_json)


@commands.command("reset-password")
def accounts_reset_password(
    email: str,
    password_file: Annotated[Path | None, typer.Option(exists=True, help="Else one is generated.")] = None,
    as_json: Json = False,
) -> None:
    """Give an account a new password, and end all its sessions."""
    from embedded.administration import reset_password

    password = password_file.read_text("utf-8").rstrip("\r\n") if password_file else None
    reset = asyncio.run(reset_password(database_url(connected_settings()), email, password=password))
    print_fields(reset, as_json)
