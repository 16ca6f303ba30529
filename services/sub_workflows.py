"""Workflows that workflows refer to: whether they exist, and whether one runs itself through others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast
from uuid import UUID

from database import Connection
from language.definition import Definition
from language.findings import Finding
from models.automations import automation_children
from models.errors import FieldError, Invalid
from models.identifiers import parse_id
from models.runs.run_writes import MAX_DEPTH

_CYCLE = "This workflow would run itself, by way of others perhaps: it could never end."
_TOO_DEEP = f"Workflows may run each other at most {MAX_DEPTH} deep."


async def errors_of(
    connection: Connection, account_id: UUID, automation_id: UUID | None, document: Any
) -> list[Finding]:
    """Return the errors of the workflow references in a document.

    Args:
        connection: any.
        account_id: the owner.
        automation_id: the workflow that it will be stored as; None for a new one.
        document: JSON, of any shape.
    """
    named = dict(_list_references(document))
    if not named:
        return []
    known = await automation_children.find_known(connection, account_id, set(named.values()))
    steps = {child for pointer, child in named.items() if pointer.startswith("/steps/")}
    cyclic, too_deep = await _find_wrong(connection, account_id, automation_id, steps & known)
    errors: list[Finding] = []
    for pointer, child in named.items():
        if child not in known:
            errors.append(Finding(pointer, "unknown_workflow", "The account has no such workflow."))
        elif pointer.startswith("/steps/") and child in cyclic:
            errors.append(Finding(pointer, "workflow_cycle", _CYCLE))
        elif pointer.startswith("/steps/") and child in too_deep:
            errors.append(Finding(pointer, "workflow_too_deep", _TOO_DEEP))
    return errors


async def check_at_last(
    connection: Connection, account_id: UUID, automation_id: UUID, definition: Definition
) -> None:
    """Check again that a workflow does not run itself, in the transaction that stores its references.

    Two workflows that are changed at the same moment to run each other are both valid alone. The later change
    waits here for the earlier one, and is rejected.

    Raises:
        Invalid: it would run itself now.

    Two that are changed at a moment to run each other are both fine by themselves: the later one waits here.

    Raises:
        Invalid: it would by now.
    """
    document = definition.model_dump(mode="json", include={"steps", "on_failure"}, exclude_none=True)
    if not dict(_list_references(document)):
        return
    await automation_children.lock_account(connection, account_id)
    errors = await errors_of(connection, account_id, automation_id, document)
    if errors:
        raise Invalid([FieldError(*error) for error in errors])


async def _find_wrong(
    connection: Connection, account_id: UUID, automation_id: UUID | None, children: set[UUID]
) -> tuple[set[UUID], set[UUID]]:
    """Return the children that lead back to the workflow, and those that lead too deep.

    A level has each workflow once, however many paths reach it: the walk costs at most `MAX_DEPTH` times the
    edges of the account.
    """
    own = {automation_id} - {None}
    levels = [children]
    while levels[-1] and len(levels) <= MAX_DEPTH:
        below = levels[-1] - own
        levels.append(await automation_children.find_children(connection, account_id, below))
    deepest = levels[MAX_DEPTH] if len(levels) > MAX_DEPTH else set[UUID]()
    cyclic = await _lead_to(connection, account_id, levels, [level & own for level in levels])
    ends = [*([set[UUID]()] * (len(levels) - 1)), deepest]
    return cyclic, await _lead_to(connection, account_id, levels, ends)


async def _lead_to(
    connection: Connection, account_id: UUID, levels: Sequence[set[UUID]], ends: Sequence[set[UUID]]
) -> set[UUID]:
    """Return the workflows of the first level with a path to an end of a level."""
    found = set[UUID]()
    for level, end in zip(reversed(levels), reversed(ends), strict=True):
        parents = (
            await automation_children.find_parents(connection, account_id, level, found) if found else end
        )
        found = end | parents
    return found


def _list_references(document: Any) -> Iterator[tuple[str, UUID]]:
    """Yield the workflows that a document names, each by its pointer, ignoring unreadable parts."""
    whole = cast(dict[str, Any], document) if isinstance(document, dict) else {}
    places: list[tuple[str, Any]] = [("/on_failure/workflow_id", whole.get("on_failure"))]
    steps = whole.get("steps")
    for index, step in enumerate(cast(list[Any], steps) if isinstance(steps, list) else []):
        if isinstance(step, dict) and cast(dict[str, Any], step).get("type") == "workflow":
            places.append((f"/steps/{index}/config/workflow_id", cast(dict[str, Any], step).get("config")))
    for pointer, holder in places:
        text = cast(dict[str, Any], holder).get("workflow_id") if isinstance(holder, dict) else None
        if isinstance(text, str) and (found := parse_id(text)) is not None:
            yield pointer, found
