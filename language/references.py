"""The references of a definition of any shape: workflows and a monitor of its account, by id or by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Literal, NamedTuple, cast
from uuid import UUID

JSONObject = dict[str, Any]
Noun = Literal["workflow", "monitor"]
NOBODY = UUID(int=0)
"""The id that no object has, for an unknown name."""


class Reference(NamedTuple):
    """A place in a document that refers to an object of the account.

    Attributes:
        pointer: to the member.
        holder: the object that has the member.
        member: its name.
    """

    noun: Noun
    pointer: str
    holder: JSONObject
    member: str

    @property
    def name(self) -> str | None:
        """Return the name at the place, or None for an id."""
        value = self.holder[self.member]
        return value if isinstance(value, str) and value and not _is_id(value) else None


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def find_references(document: Any) -> Iterator[Reference]:
    """Yield the places in a document, of any shape, that refer to workflows or a monitor."""
    if not isinstance(document, dict):
        return
    given = cast(JSONObject, document)
    places: list[tuple[Noun, str, Any, str]] = [
        ("workflow", "/on_failure", given.get("on_failure"), "workflow_id"),
        ("monitor", "/trigger", given.get("trigger"), "monitor_id"),
    ]
    steps = cast(list[Any], given["steps"]) if isinstance(given.get("steps"), list) else []
    for index, step in enumerate(steps):
        if isinstance(step, dict) and cast(JSONObject, step).get("type") == "workflow":
            config: Any = cast(JSONObject, step).get("config")
            places.append(("workflow", f"/steps/{index}/config", config, "workflow_id"))
    for noun, pointer, holder, member in places:
        if isinstance(holder, dict) and member in holder:
            yield Reference(noun, f"{pointer}/{member}", cast(JSONObject, holder), member)


def replace_names(document: Any, id_of: Callable[[Reference, str], UUID]) -> Any:
    """Replace names by ids in a copy of the document.

    Args:
        document: JSON, of any shape.
        id_of: returns the id for a place and its name.
    """
    if all(one.name is None for one in find_references(document)):
        return document
    replaced = deepcopy(document)
    for one in find_references(replaced):
        if (name := one.name) is not None:
            one.holder[one.member] = str(id_of(one, name))
    return replaced
