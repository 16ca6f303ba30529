"""Names in place of ids: a document may name the workflows, and the monitor, that it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Literal, NamedTuple, cast
from uuid import UUID

from database import Connection
from language.validation.findings import Finding
from models import named_objects
from models.identifiers import parse_id

JSONObject = dict[str, Any]
Noun = Literal["workflow", "monitor"]


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


async def resolve_names(connection: Connection, account_id: UUID, document: Any) -> tuple[Any, list[Finding]]:
    """Put ids in the place of names, and find the names that several objects have.

    What is an id stays one. A name that nothing has stays as it is: it is no id, and validation says so.

    Args:
        connection: any.
        account_id: whose objects they are.
        document: JSON, of any shape. It is not changed.

    Returns:
        The document with ids, and an `ambiguous_name` for each name that several have.
    """
    if not any(_is_name(one) for one in _references(document)):
        return document, []
    resolved = deepcopy(document)
    named = [one for one in _references(resolved) if _is_name(one)]
    ids = {noun: await _find_ids(connection, account_id, noun, named) for noun in ("workflow", "monitor")}
    ambiguous: list[Finding] = []
    for noun, pointer, holder, member in named:
        found = ids[noun].get(holder[member], [])
        if len(found) > 1:
            which = ", ".join(str(one) for one in found)
            message = f"Several {noun}s have this name; give the id of one: {which}."
            ambiguous.append(Finding(pointer, "ambiguous_name", message))
        if found:
            holder[member] = str(found[0])
    return resolved, ambiguous


async def _find_ids(
    connection: Connection, account_id: UUID, noun: Noun, named: list[Reference]
) -> dict[str, list[UUID]]:
    wanted = {one.holder[one.member] for one in named if one.noun == noun}
    return await named_objects.find_ids(connection, account_id, noun, wanted) if wanted else {}


def _is_name(reference: Reference) -> bool:
    value = reference.holder[reference.member]
    return isinstance(value, str) and bool(value) and parse_id(value) is None


def _references(document: Any) -> Iterator[Reference]:
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
