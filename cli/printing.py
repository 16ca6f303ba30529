"""What commands print: text for people, or JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

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
