"""`vedette keys`: API keys."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from cli.connecting import connected_settings, database_url
from cli.errors import naming
from cli.groups import new_group
from cli.printing import Json, moment, print_data, print_fields, print_table, printable

commands = new_group("API keys.")

_SHOWN = {
    "email": "--account", "account": "--account", "too_many_keys": "--account", "name": "--name",
    "scopes": "--scope", "key": "ID",
}  # fmt: skip


@commands.command("create")
def keys_create(
    account: Annotated[str, typer.Option(help="The e-mail of the account.")],
    name: Annotated[str, typer.Option(help="The purpose of the key.")] = "Command line",
    scope: Annotated[list[str] | None, typer.Option(help="Repeatable; all but `keys` by default.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="The days until it expires; never by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create an API key, and print it this once."""
    from services.operator.administration import create_key

    url = database_url(connected_settings())
    with naming(_SHOWN):
        created = asyncio.run(create_key(url, account, name=name, scopes=scope, days=days))
    print_fields(created, as_json)


@commands.command("list")
def keys_list(
    account: Annotated[str | None, typer.Option(help="The e-mail of an account; all by default.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most to list.")] = 100,
    as_json: Json = False,
) -> None:
    """List API keys, newest first, without their secrets."""
    from services.operator.inventory import list_keys

    url = database_url(connected_settings())
    with naming(_SHOWN):
        found = asyncio.run(list_keys(url, account, limit))
    if as_json:
        print(json.dumps({"keys": found}, indent=2))
        return
    rows = [
        [one["id"], one["account"], printable(one["name"]), one["key_preview"], " ".join(one["scopes"]),
         moment(one["last_used"]), "revoked" if one["revoked_at"] else moment(one["expires_at"])]
        for one in found
    ]  # fmt: skip
    print_table(["id", "account", "name", "key", "scopes", "last used", "ends"], rows, "There are no keys.")


@commands.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID")],
    permanent: Annotated[bool, typer.Option("--permanent", help="Remove its record too.")] = False,
    as_json: Json = False,
) -> None:
    """Stop an API key, at once and everywhere."""
    from services.operator.administration import revoke_key

    url = database_url(connected_settings())
    with naming(_SHOWN):
        asyncio.run(revoke_key(url, key_id, permanent=permanent))
    print_data({"revoked": key_id}, f"The key {key_id} is {'deleted' if permanent else 'revoked'}.", as_json)
