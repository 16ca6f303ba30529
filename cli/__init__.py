"""The `vedette` command, one module a noun.

What its commands do stands in the modules that they import when they are called, so that `--help` is quick.
"""

from __future__ import annotations

import sys

import process
from cli import (
    accounts,
    config,
    credits,
    data,
    doctor,
    keys,
    migrate,
    monitors,
    persons,
    secrets,
    up,
    workflows,
)
from cli.errors import BadInput
from cli.groups import new_group

app = new_group("Look up, watch and automate.")
for command in (up.up, up.api, up.worker, migrate.migrate, config.config, doctor.doctor):
    app.command()(command)
for noun in (data, accounts, keys, persons, credits, secrets, workflows, monitors):
    app.add_typer(noun.commands, name=noun.__name__.rpartition(".")[2])


def main() -> None:
    """Run the command that the arguments name; exit codes are those of `settings.ExitCode`."""
    process.collect_rarely()
    process.leave(_run())


def _run() -> int:
    try:
        if any("\ud800" <= character <= "\udfff" for word in sys.argv for character in word):
            raise BadInput("The command line is not UTF-8 text.")
        app(prog_name="vedette")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except Exception as error:
        from settings import ExitCode, StartError

        if not isinstance(error, (StartError, BadInput)):
            raise
        print(error, file=sys.stderr)
        return error.exit_code if isinstance(error, StartError) else ExitCode.USAGE
    return 0
