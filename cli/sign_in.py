"""`vedette sign-in`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli.connecting import connected_settings, database_url
from cli.errors import naming
from cli.printing import Json, print_fields


def sign_in(
    email: Annotated[
        str | None, typer.Argument(metavar="EMAIL", help="Whose account; the first one without it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a link that signs a browser in to the dashboard, once and within a minute."""
    from embedded import folder
    from services.operator.sign_in import make_link

    settings = connected_settings()
    running = folder.running(settings.data)
    address = settings.public_url or (running.url if running else settings.address)
    with naming({"account": "EMAIL", "email": "EMAIL"}):
        made = asyncio.run(make_link(database_url(settings), address.rstrip("/"), email))
    print_fields(made, as_json)
