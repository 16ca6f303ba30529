"""`vedette workflows`: workflows as files."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cli.groups import new_group
from cli.printing import Json, print_data

commands = new_group("Workflows, as files.")


@commands.command("validate")
def workflows_validate(
    file: Annotated[
        typer.FileBinaryRead, typer.Argument(metavar="FILE", help="JSON; - reads standard input.")
    ],
    as_json: Json = False,
) -> None:
    """Say what is wrong with a workflow, all at once. Exits with 1 if something is."""
    from models.definitions import validate_text
    from providers.registry import answer_shapes, lookup_fields

    report = validate_text(file.read(), lookup_fields(), answer_shapes())
    found = {name: [one._asdict() for one in getattr(report, name)] for name in ("errors", "warnings")}
    told = [f"{e.pointer[1:] or '(whole)'}: {e.message}" for e in report.errors] or ["The workflow is valid."]
    told += [f"{warning.pointer[1:]}: warning: {warning.message}" for warning in report.warnings]
    print_data({"valid": not report.errors} | found, "\n".join(told), as_json)
    raise typer.Exit(1 if report.errors else 0)


@commands.command("schema")
def workflows_schema() -> None:
    """Print the JSON Schema of workflows, for editors."""
    from models.definitions import json_schema

    print(json.dumps(json_schema(), indent=2))
