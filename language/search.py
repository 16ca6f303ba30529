"""The values of an event by which runs are found: those at the paths that a workflow names in `search`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, cast

from pydantic import StringConstraints

MAX_PATHS = 3
MAX_LENGTH = 200
"""The most characters of a path, and of a value: longer values are not found."""

Path = Annotated[
    str, StringConstraints(pattern=r"^trigger(\.[A-Za-z_][A-Za-z0-9_]*)+$", max_length=MAX_LENGTH)
]
"""A path from the event to a value, such as `trigger.customer.email`."""


def normalize(text: str) -> str:
    """Return a text as it is compared: without regard to case, and to spaces around it."""
    return text.strip().casefold()


def find_values(paths: Iterable[str], event: Any) -> list[str]:
    """Return what stands at these paths of an event, each once, normal: texts, numbers, true and false.

    Objects, arrays, null, empty and overlong texts are left out, and what contains a NUL, which Postgres
    cannot store.
    """
    values = (_find_value(path.split(".")[1:], event) for path in paths)
    return list(dict.fromkeys(value for value in values if value))


def _find_value(names: Sequence[str], event: Any) -> str | None:
    for name in names:
        if not isinstance(event, dict):
            return None
        event = cast(dict[str, Any], event).get(name)
    if isinstance(event, bool):
        return "true" if event else "false"
    if isinstance(event, int | float):
        return str(event)
    if not isinstance(event, str) or "\0" in event:
        return None
    value = normalize(event)
    return value if len(value) <= MAX_LENGTH else None
