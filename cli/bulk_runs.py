"""`vedette runs retry-all`, `cancel-all`: what is done to all runs of a filter."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any, Literal

import typer

from cli.client import Service, connect_service, part
from cli.errors import BadInput
from cli.printing import Json, print_data
from cli.runs import commands

_PATH = "/api/workflows/runs/bulk"
_ACTIONS = "/api/bulk-actions"
_SHOWN = {"filter": "--where", "confirm": "the runs have changed", "version": "--newest"}
_PAUSE_SECONDS = 0.5

Where = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=VALUE",
        help="Only matching runs; may be repeated: status, workflow_id, batch_id, since, until, trigger,"
        " error_code, step, parent_run_id, q.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for the number of runs.")]


@commands.command("retry-all")
def runs_retry_all(
    where: Where,
    newest: Annotated[
        bool, typer.Option("--newest", help="By the current version of each workflow, not that of the run.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Retry all failed and cancelled runs that match, at most 10,000. It says first how many there are."""
    _change(where, "retry", "newest" if newest else "same", yes, as_json)


@commands.command("cancel-all")
def runs_cancel_all(where: Where, yes: Yes = False, as_json: Json = False) -> None:
    """Cancel all unfinished runs that match, at most 10,000. It says first how many there are."""
    _change(where, "cancel", "same", yes, as_json)


def _change(
    where: list[str], action: Literal["retry", "cancel"], version: str, yes: bool, as_json: bool
) -> None:
    body: dict[str, Any] = {"filter": dict(map(_read_pair, where)), "action": action, "version": version}
    with connect_service(_SHOWN) as service:
        told = service.post(_PATH, body | {"dry": True})
        if told["count"] and not yes:
            _ask(told, action)
        made = service.post(_PATH, body | {"confirm": told["confirm"]})
        ended = _follow(service, made)
    left = "".join(f", {count} left ({code})" for code, count in ended["skipped"].items())
    failed = f", {ended['failed']} failed" if ended["failed"] else ""
    done = {"retry": "retried", "cancel": "cancelled"}[action]
    print_data(ended, f"{ended['done']} of {ended['total']} runs are {done}{left}{failed}.", as_json)


def _read_pair(given: str) -> tuple[str, str]:
    name, separator, value = given.partition("=")
    if not separator or not value:
        raise BadInput(f"--where: {given!r} is not NAME=VALUE, such as status=failed.")
    return name, value


def _ask(told: dict[str, Any], action: str) -> None:
    if not sys.stdin.isatty():
        raise BadInput(f"--yes: needed where nobody can be asked. Matching runs: {told['count']}.")
    cost = "" if action == "cancel" else f", which cost at most {told['credits_max']} credits"
    cost = ", whose cost is not known before" if told["credits_max"] is None else cost
    typed = typer.prompt(f"Matching runs: {told['count']}{cost}. Type their number to {action} them")
    if typed.strip() != str(told["count"]):
        raise BadInput("This is not their number: nothing was done.")


def _follow(service: Service, action: dict[str, Any]) -> dict[str, Any]:
    """Return the action at its end."""
    while action["completed_at"] is None:
        time.sleep(_PAUSE_SECONDS)
        action = service.get(f"{_ACTIONS}/{part(action['id'])}")
    return action
