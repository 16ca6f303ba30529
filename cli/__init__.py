"""The `vedette` command, one module a noun.

Commands import the modules that do their work only when they are called, so that `--help` is quick.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

import process
from cli import (
    accounts,
    activity,
    backup,
    bulk_runs,
    chat,
    config,
    credits,
    data,
    doctor,
    events,
    jobs,
    keys,
    lists,
    lookup,
    migrate,
    monitors,
    privacy,
    providers,
    releases,
    runs,
    secrets,
    sign_in,
    up,
    uploads,
    webhooks,
    workflow_files,
    workflows,
)
from cli.errors import BadInput
from cli.groups import new_group
from cli.printing import printable

DEVELOPERS = "With a key, over HTTP"
OPERATORS = "For operators of the service"

app = new_group("Look up, watch and automate.", completion=True)
for command in (
    up.up,
    up.api,
    up.worker,
    migrate.migrate,
    backup.backup,
    backup.restore,
    config.config,
    doctor.doctor,
):
    app.command(rich_help_panel=OPERATORS)(command)
app.command("sign-in", rich_help_panel=OPERATORS)(sign_in.sign_in)
for command in (lookup.lookup, chat.chat, providers.providers, activity.stats, activity.activity):
    app.command(rich_help_panel=DEVELOPERS)(command)
for noun in (workflows, runs, uploads, secrets, monitors, lists, jobs, webhooks, events):
    app.add_typer(noun.commands, name=noun.__name__.rpartition(".")[2], rich_help_panel=DEVELOPERS)
for noun in (credits, data, accounts, keys, releases):
    app.add_typer(noun.commands, name=noun.__name__.rpartition(".")[2], rich_help_panel=OPERATORS)
app.add_typer(privacy.commands, name="persons", rich_help_panel=OPERATORS)
# Importing these adds their commands to those of `workflows` and `runs`.
assert workflow_files.commands is workflows.commands
assert bulk_runs.commands is runs.commands


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"vedette {version('vedette')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Look up, watch and automate."""


def main() -> None:
    """Run the command that the arguments name; exit codes are those of `settings.ExitCode`."""
    process.collect_rarely()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without UTF-8 gets other characters escaped
        sys.stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportUnknownMemberType]
    process.leave(_run())


@cache
def command_tree() -> Callable[..., Any]:
    """Return the command with all that are below it. To make it takes longer than most of them do."""
    return typer.main.get_command(app)


def _run() -> int:
    try:
        if any("\ud800" <= character <= "\udfff" for word in sys.argv for character in word):
            raise BadInput("The command line is not UTF-8 text.")
        try:
            command_tree()(prog_name="vedette")
        finally:
            sys.stdout.flush()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except OSError as error:
        if error.filename is not None:
            raise
        # Nothing that the interpreter writes at its end may fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            print(f"The output cannot be written: {error.strerror}.", file=sys.stderr)
        return 1
    except Exception as error:
        from settings import ExitCode, StartError

        if not isinstance(error, (StartError, BadInput)):
            raise
        # The text may include a message of the service.
        print("\n".join(map(printable, str(error).splitlines())), file=sys.stderr)
        return error.exit_code if isinstance(error, StartError) else ExitCode.USAGE
    return 0
