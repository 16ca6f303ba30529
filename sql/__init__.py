"""The text of each function that the database stores.

One with a version in its name never changes: a release that needs another gives it a new name. As long as a
release that calls the former one may run, that stays; `<name>.shim` is its text where it passes the calls on.
"""

from __future__ import annotations

from pathlib import Path


def read_function(name: str) -> str:
    """Return the statement that makes a function."""
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
