"""The text of each function that the database stores. One with a version in its name never changes."""

from __future__ import annotations

from pathlib import Path


def read(name: str) -> str:
    """Return the statement that makes a function."""
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
