"""Names as sources write them."""

from __future__ import annotations


def bare_name(name: str) -> str:
    """A name without what sources write differently: case and punctuation."""
    return "".join(character for character in name.casefold() if character.isalnum()) or name
