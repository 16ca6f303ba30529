"""Groups of commands, one a noun."""

from __future__ import annotations

import typer


def new_group(help_text: str) -> typer.Typer:
    """Make the group of one noun's commands."""
    return typer.Typer(
        help=help_text, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
