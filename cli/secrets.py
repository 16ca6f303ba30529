"""`vedette secrets`: the secrets of workflows, and the sealed values."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated

import typer

from cli.client import connect_service
from cli.connecting import connected_settings, database_url, open_keyring
from cli.errors import BadInput
from cli.groups import new_group
from cli.printing import Json, moment, print_data, print_table

commands = new_group("Secrets: what webhook steps use by name; and, for operators, the keys that seal.")

Name = Annotated[str, typer.Argument(metavar="NAME")]

_SHOWN = {"name": "NAME", "value": "standard input", "not_found": "NAME", "secret_in_use": "NAME",
          "too_many_secrets": "NAME"}  # fmt: skip
_PATH = "/api/workflows/secrets"


@commands.command("set")
def secrets_set(name: Name, as_json: Json = False) -> None:
    """Store a secret; an existing one of this name is replaced. Its value is read from standard input.

    A terminal prompts for it without showing it. One newline at the end of piped input is removed.
    """
    if sys.stdin.isatty():
        value = typer.prompt(f"Value of {name}", hide_input=True)
    else:
        try:
            value = sys.stdin.buffer.read().decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise BadInput("standard input: This is not UTF-8 text.") from None
    with connect_service(_SHOWN) as service:
        stored = service.post(_PATH, {"name": name, "value": value})
    print_data(stored, f"The secret {stored['name']} is stored; write {{{{ secrets.{name} }}}}.", as_json)


@commands.command("list")
def secrets_list(as_json: Json = False) -> None:
    """List the names of the secrets, and how many workflows use each. Values are never shown."""
    with connect_service(_SHOWN) as service:
        found = service.get(_PATH)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    rows = [[one["name"], str(len(one["used_by"])), moment(one["updated_at"])] for one in found["secrets"]]
    print_table(["name", "workflows", "changed"], rows, "There are no secrets.")


@commands.command("delete")
def secrets_delete(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Delete it even if workflows use it.")] = False,
    as_json: Json = False,
) -> None:
    """Delete a secret."""
    with connect_service(_SHOWN) as service:
        body = {"name": name, **({"force": True} if force else {})}
        deleted = service.call("DELETE", _PATH, json=body)
    print_data(deleted, f"The secret {name} is deleted.", as_json)


@commands.command("rotate")
def secrets_rotate(as_json: Json = False) -> None:
    """Reseal with the first key the values of older keys. Exits with 1 if no key opens some value."""
    from dataclasses import asdict

    from services.operator.administration import reseal

    settings = connected_settings()
    done = asyncio.run(reseal(database_url(settings), open_keyring(settings)))
    lines = [
        f"{noun}: {counts.resealed} sealed anew"
        + (f", {counts.unreadable} that no key of the ring opens" if counts.unreadable else "")
        for noun, counts in done.items()
    ]
    print_data({noun: asdict(counts) for noun, counts in done.items()}, "\n".join(lines), as_json)
    if any(counts.unreadable for counts in done.values()):
        raise typer.Exit(1)
