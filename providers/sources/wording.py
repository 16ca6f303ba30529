"""Shared parts of the messages in answers."""

from __future__ import annotations

from collections.abc import Sequence


def may_be_more(silent: Sequence[str]) -> str:
    """Return a sentence that the sources of these names may know more; empty if there are none."""
    return f" There may be more: no answer from {_list_names(silent)}." if silent else ""


def _list_names(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
