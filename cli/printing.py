"""What commands print: text for people, or JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_data(data: object, text: str, as_json: bool) -> None:
    """Print the data as JSON, or the text."""
    print(json.dumps(data, indent=2) if as_json else text)


def print_fields(created: DataclassInstance, as_json: bool) -> None:
    """Print the fields that have a value, one a line or as a JSON object."""
    fields = {name: value for name, value in asdict(created).items() if value is not None}
    width = max(len(name) for name in fields)
    print_data(fields, "\n".join(f"{name:<{width}}  {value}" for name, value in fields.items()), as_json)


def printable(value: Any) -> str:
    """A value as text for a terminal: strings as they are, none as a dash, all else as JSON.

    Characters that would steer the terminal are escaped, for values come from anywhere.
    """
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many texts, one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
