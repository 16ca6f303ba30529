"""Targets as commands accept them: in options, and line by line from a file."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from cli.errors import BadInput, Refused
from cli.printing import printable

Type = Literal["email", "phone", "domain", "ip", "company", "darkweb"]
Targets = Annotated[
    list[str] | None, typer.Option(help="Repeatable; separated by commas, except for company and darkweb.")
]
TargetsFile = Annotated[
    typer.FileBinaryRead | None, typer.Option(help="One target a line; - reads standard input.")
]

# A comma is part of a company's name, and of a dark-web query.
_WITH_COMMAS = {"company", "darkweb"}
_TOLD_TARGETS = 10


def read_targets(type: str, options: Sequence[str], file: typer.FileBinaryRead | None) -> list[str]:
    """Return the targets in options and a file.

    Raises:
        BadInput: the file is not UTF-8 text.
    """
    texts = list(options) if type in _WITH_COMMAS else [text for one in options for text in one.split(",")]
    try:
        texts += file.read().decode("utf-8-sig").splitlines() if file else []
    except UnicodeDecodeError:
        raise BadInput("--targets-file: This is not UTF-8 text.") from None
    return [text.strip() for text in texts if text.strip()]


@contextmanager
def naming_targets(texts: Sequence[str]) -> Generator[None]:
    """Add the text of each rejected target to the error, because the service reports only positions."""
    try:
        yield
    except Refused as refused:
        found = [(one["pointer"].split("/"), one["message"]) for one in refused.errors]
        wrong = [
            f"--targets: {printable(texts[int(at[2])])}: {message}"
            for at, message in found
            if at[1] == "targets" and at[2:] and at[2].isdecimal()
        ]
        if not wrong or len(wrong) < len(found):
            raise
        more = [f"--targets: There are {len(wrong) - _TOLD_TARGETS:,} more like these."]
        raise BadInput("\n".join(wrong[:_TOLD_TARGETS] + more * (len(wrong) > _TOLD_TARGETS))) from None
