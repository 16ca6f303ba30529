"""`vedette credits`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli.client import connect_service
from cli.connecting import connected_settings, database_url
from cli.errors import naming
from cli.groups import new_group
from cli.printing import Json, print_fields, print_record

commands = new_group("Credits.")

MOST_CREDITS = 10**12
"""The most credits of one grant; a balance can hold nine million times as many."""

_SHOWN = {"email": "EMAIL", "account": "EMAIL", "reference_taken": "--reference"}


@commands.command("show")
def credits_show(as_json: Json = False) -> None:
    """Show the balance of the account whose key is used."""
    with connect_service({}) as service:
        print_record(service.get("/api/credits"), as_json)


@commands.command("grant")
def credits_grant(
    account: Annotated[str, typer.Argument(metavar="EMAIL", help="The e-mail of the account.")],
    amount: Annotated[int, typer.Argument(metavar="AMOUNT", min=1, max=MOST_CREDITS)],
    reason: Annotated[str, typer.Option(help="The reason in the ledger.")] = "Granted by the operator",
    reference: Annotated[str | None, typer.Option(help="Repeating the same reference adds nothing.")] = None,
    as_json: Json = False,
) -> None:
    """Add credits to an account. For operators: it needs the database."""
    from services.operator.administration import grant_credits

    url = database_url(connected_settings())
    with naming(_SHOWN):
        granted = asyncio.run(grant_credits(url, account, amount, reason=reason, reference=reference))
    print_fields(granted, as_json)
