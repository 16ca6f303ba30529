"""The output of commands: text for people, in colours on a terminal, or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

_LONGEST = 60
_STYLES = {
    "completed": "green", "active": "green", "delivered": "green", "verified": "green", "failed": "red",
    "cancelled": "red", "NOT VERIFIED": "bold red", "running": "yellow", "waiting": "yellow",
    "queued": "yellow", "paused": "yellow", "draft": "yellow", "skipped": "dim", "pending": "dim", "–": "dim",
}  # fmt: skip


def print_data(data: object, text: str, as_json: bool) -> None:
    """Print the data as JSON, or the text."""
    print(json.dumps(data, indent=2) if as_json else text)


def print_fields(created: DataclassInstance, as_json: bool) -> None:
    """Print the fields that have a value, one a line or as a JSON object."""
    fields = {name: value for name, value in asdict(created).items() if value is not None}
    width = max(len(name) for name in fields)
    lines = [f"{name:<{width}}  {printable(value)}" for name, value in fields.items()]
    print_data(fields, "\n".join(lines), as_json)


def print_record(record: Mapping[str, Any], as_json: bool) -> None:
    """Print an object of the service: for people, the fields that have a value."""
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        print_rows(
            [[name, printable(value)] for name, value in record.items() if value not in (None, [], {})]
        )


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], none: str = "") -> None:
    """Print a table for people, or `none` if it has no rows.

    On a terminal it fills the width and has colours; elsewhere a row is a line, for `grep` and `awk`.
    """
    if not rows:
        print(none)
    elif sys.stdout.isatty():
        _print_rich(head, rows)
    else:
        print(columns([head, *rows]))


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of names and values."""
    if rows and sys.stdout.isatty():
        _print_rich(None, rows)
    elif rows:
        print(columns(rows))


def _print_rich(head: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD if head else None, show_header=head is not None, header_style="bold")
    for position in range(len(rows[0])):
        # The first column is the one that users copy or search.
        first = position == 0
        name = head[position] if head else ""
        table.add_column(name, no_wrap=first, overflow="fold", style="cyan" if first else "")
    for row in rows:
        # No markup, because the texts come from anywhere.
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)


def printable(value: Any) -> str:
    """Return a value as text for a terminal: strings unchanged, None as a dash, all else as JSON.

    Characters that would control the terminal are escaped, because values come from anywhere.
    """
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def short(value: Any, longest: int = _LONGEST) -> str:
    """Return the same text, cut to this many characters."""
    text = printable(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def moment(time: str | None) -> str:
    """Return a time of the service, to the minute."""
    return time[:16].replace("T", " ") if time else "–"


def duration(milliseconds: int | None) -> str:
    """Return a duration as text."""
    if milliseconds is None:
        return "–"
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:,.1f} s"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of equally many texts as aligned lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
