"""`vedette providers`: the sources of lookups."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.client import connect_service
from cli.errors import BadInput
from cli.printing import Json, print_table, printable


def providers(
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only those of this kind of lookup, such as ip.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the sources of lookups: which are on, and whether their terms allow commercial use."""
    with connect_service({}) as service:
        rows: list[dict[str, Any]] = service.get("/api/providers")["providers"]
    kinds = sorted({one["kind"] for one in rows})
    if kind not in (None, *kinds):
        raise BadInput(f"--kind: {kind} is no kind of lookup: give {', '.join(kinds)}.")
    chosen = [one for one in rows if kind in (None, one["kind"])]
    if as_json:
        print(json.dumps(chosen, indent=2))
        return
    columns = ("kind", "name", "state", "reason", "commercial", "licence", "terms")
    print_table(columns, [[printable(one[name]) for name in columns] for one in chosen], "There are none.")
