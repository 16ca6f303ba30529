"""CSV files of targets, as `lists import` and `monitors import` send them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.client import Service
from cli.printing import printable

CsvFile = Annotated[
    typer.FileBinaryRead,
    typer.Argument(metavar="FILE", help="CSV with a header; - reads standard input."),
]
Column = Annotated[str | None, typer.Option(help="The column with the targets; found by itself by default.")]

SHOWN = {
    "file": "FILE", "": "FILE", "column": "--column", "no_such_column": "--column",
    "column_required": "--column", "list_full": "FILE", "monitor_full": "FILE", "targets_in_list": "ID|NAME",
}  # fmt: skip
_NAMED = 20


def send_file(service: Service, path: str, file: typer.FileBinaryRead, column: str | None) -> dict[str, Any]:
    """Add the targets of a file to the list or monitor at a path; return the result of the import."""
    upload = {"file": (Path(file.name).name, file.read(), "text/csv")}
    fields = {} if column is None else {"column": column}
    return service.call("POST", f"{path}/targets/import", data=fields, files=upload)


def describe_import(done: Mapping[str, Any]) -> str:
    """Return the result of an import, for people."""
    lines = [
        f"{done['rows']:,} rows, targets in {printable(done['column'])}: {done['added']:,} added,"
        f" {done['duplicates']:,} there already, {done['invalid_rows']:,} invalid."
    ]
    named = done["invalid"][:_NAMED]
    lines += [f"row {one['row']}: {printable(one['target'])}: {printable(one['reason'])}" for one in named]
    left = done["invalid_rows"] - len(named)
    return "\n".join([*lines, *([f"There are {left:,} more like these."] if left else [])])
