"""`vedette secrets`: what is sealed."""

from __future__ import annotations

import asyncio

import typer

from cli.connecting import connected_settings, database_url, open_keyring
from cli.groups import new_group
from cli.printing import Json, print_data

commands = new_group("What is sealed.")


@commands.command("rotate")
def secrets_rotate(as_json: Json = False) -> None:
    """Seal with the first key what older keys have sealed. Exits with 1 if there is what no key opens."""
    from dataclasses import asdict

    from embedded.administration import reseal

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
