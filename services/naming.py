"""Names in place of ids: a document may refer to workflows and the monitor by name."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from database import Connection
from language.findings import Finding
from language.references import NOBODY, Noun, Reference, find_references, replace_names
from models.lists import named_objects

_NOUNS: tuple[Noun, ...] = ("workflow", "monitor")


async def resolve_names(connection: Connection, account_id: UUID, document: Any) -> tuple[Any, list[Finding]]:
    """Replace names by ids, and find the names that several objects have.

    Ids stay unchanged. A name of no object is replaced by an id of no object, which validation then reports.

    Args:
        connection: any.
        account_id: the owner of the objects.
        document: JSON, of any shape. It is not changed.

    Returns:
        The document with ids, and an `ambiguous_name` for each name that several have.
    """
    named = [(one.noun, name) for one in find_references(document) if (name := one.name) is not None]
    if not named:
        return document, []
    ids: dict[tuple[Noun, str], list[UUID]] = {}
    for noun in _NOUNS:
        if wanted := {name for of, name in named if of == noun}:
            found = await named_objects.find_ids(connection, account_id, noun, wanted)
            ids |= {(noun, name): some for name, some in found.items()}
    ambiguous: list[Finding] = []

    def id_of(place: Reference, name: str) -> UUID:
        found = ids.get((place.noun, name), [NOBODY])
        if len(found) > 1:
            which = ", ".join(map(str, found))
            message = f"Several {place.noun}s have this name; give the id of one: {which}."
            ambiguous.append(Finding(place.pointer, "ambiguous_name", message))
        return found[0]

    return replace_names(document, id_of), ambiguous
