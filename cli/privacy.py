"""`vedette persons`: the people that lookups are about."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli.connecting import connected_settings, database_url, open_keyring
from cli.errors import naming
from cli.groups import new_group
from cli.printing import Json, print_data

commands = new_group("The people whom lookups are about.")

_SHOWN = {"email": "PERSON", "phone": "PERSON"}


Person = Annotated[
    str, typer.Argument(metavar="PERSON", help="An e-mail address, or a phone number with its country code.")
]


@commands.command("suppress")
def persons_suppress(
    person: Person,
    lift: Annotated[bool, typer.Option("--lift", help="Look the person up again.")] = False,
    as_json: Json = False,
) -> None:
    """Suppress all lookups about a person: each answers as if nothing were known."""
    from services.operator.administration import suppress_person

    settings = connected_settings()
    keyring = open_keyring(settings)
    with naming(_SHOWN):
        done = asyncio.run(suppress_person(database_url(settings), keyring, person, lift=lift))
    state = "suppressed" if done.suppressed else "not suppressed"
    text = f"Lookups of this person are {state}{'' if done.changed else ', as before'}."
    print_data({"suppressed": done.suppressed, "changed": done.changed}, text, as_json)


@commands.command("erase")
def persons_erase(person: Person, as_json: Json = False) -> None:
    """Delete the stored answers about a person, and list them."""
    from services.operator.administration import erase_person

    settings = connected_settings()
    keyring = open_keyring(settings)
    with naming(_SHOWN):
        erased = asyncio.run(erase_person(database_url(settings), keyring, person))
    rows = [{"source": one.source, "fetched_at": f"{one.fetched_at:%Y-%m-%dT%H:%M:%SZ}"} for one in erased]
    lines = [f"{row['source']:<16} {row['fetched_at']}" for row in rows]
    print_data({"erased": rows}, "\n".join([*lines, f"{len(rows)} kept answers erased."]), as_json)
