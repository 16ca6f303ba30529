"""Groups of commands, one a noun."""

from __future__ import annotations

import typer


def new_group(help_text: str, *, completion: bool = False) -> typer.Typer:
    """Make the group of one noun's commands; the top group has the options for shell completion."""
    return typer.Typer(
        help=help_text, no_args_is_help=True, add_completion=completion, pretty_exceptions_enable=False
    )
