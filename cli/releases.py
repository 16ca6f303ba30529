"""`vedette releases`: which builds of the code take work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cli.connecting import connected_settings, database_url
from cli.errors import naming
from cli.groups import new_group
from cli.printing import Json, moment, print_table

if TYPE_CHECKING:
    from models.runs.builds import BuildState, BuildStatus

commands = new_group("Builds of the code: which of them take work.")

_SHOWN = {"build": "BUILD"}
BuildName = Annotated[str, typer.Argument(metavar="BUILD", help="As `vedette releases list` prints it.")]


@commands.command("list")
def releases_list(as_json: Json = False) -> None:
    """List the builds that have had workers, newest first."""
    from services.operator.releases import list_builds

    _print_builds(asyncio.run(list_builds(database_url(connected_settings()))), as_json)


@commands.command("admit")
def releases_admit(
    build: BuildName,
    share: Annotated[
        int, typer.Option(min=1, max=100, help="The work of each of its workers, in percent of another's.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Let the workers of a build take work, all or a share of it."""
    from models.runs.builds import BuildState

    _set_state(build, BuildState.ADMITTED, share, as_json)


@commands.command("drain")
def releases_drain(build: BuildName, as_json: Json = False) -> None:
    """Give no more work to the workers of a build; they finish what they have."""
    from models.runs.builds import WHOLE_SHARE, BuildState

    _set_state(build, BuildState.DRAINED, WHOLE_SHARE, as_json)


def _set_state(build: str, state: BuildState, share: int, as_json: bool) -> None:
    from models.runs.builds import takes_work
    from services.operator.releases import set_state

    with naming(_SHOWN):
        found = asyncio.run(set_state(database_url(connected_settings()), build, state, share))
    _print_builds(found, as_json)
    if not takes_work(found):
        typer.echo("warning: no worker of an admitted build is alive: nothing is worked off.", err=True)


def _print_builds(found: Sequence[BuildStatus], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"builds": [one._asdict() for one in found]}, indent=2, default=str))
        return
    rows = [
        [one.name, one.state, f"{one.share} %", str(one.workers), str(one.at_work),
         moment(one.first_seen_at.isoformat()), moment(one.changed_at.isoformat())]
        for one in found
    ]  # fmt: skip
    print_table(["build", "state", "share", "workers", "runs", "first seen", "changed"], rows)
