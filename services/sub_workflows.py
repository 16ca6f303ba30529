"""Workflows that workflows name: whether they are there, and whether none runs itself by way of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

from database import Connection
from language.definition import Definition
from language.validation.findings import Finding
from models.errors import FieldError, Invalid
from models.identifiers import parse_id
from models.leases import MAX_DEPTH

# Any constant beside the hash of an account's id.
_SAVING = 0x5A7E
_CHILDREN = """
select distinct s->'config'->>'workflow_id' as child
from automations a
join automation_versions v on v.automation_id = a.id and v.version = a.version,
json_array_elements(case json_typeof(v.definition->'steps') when 'array' then v.definition->'steps' end) s
where a.account_id = %s and a.id = any(%s) and a.deleted_at is null and s->>'type' = 'workflow'
"""


async def errors_of(
    connection: Connection, account_id: UUID, automation_id: UUID | None, document: Any
) -> list[Finding]:
    """Find what is wrong with the workflows that a document names.

    Args:
        connection: any.
        account_id: whose it is.
        automation_id: the workflow that it is to be; None for a new one.
        document: JSON, of any shape.
    """
    named = dict(_named(document))
    if not named:
        return []
    cursor = await connection.execute(
        "select id from automations where account_id = %s and id = any(%s) and deleted_at is null",
        (account_id, list(set(named.values()))),
    )
    known = {row["id"] for row in await cursor.fetchall()}
    errors: list[Finding] = []
    for pointer, child in named.items():
        if child not in known:
            errors.append(Finding(pointer, "unknown_workflow", "The account has no such workflow."))
        elif pointer.startswith("/steps/"):
            errors += await _errors_below(connection, account_id, automation_id, pointer, child)
    return errors


async def check_at_last(
    connection: Connection, account_id: UUID, automation_id: UUID, definition: Definition
) -> None:
    """See once more that a workflow does not run itself, in the transaction that stores what it runs.

    Two that are changed at a moment to run each other are both fine by themselves: the later one waits here.

    Raises:
        Invalid: it would by now.
    """
    document = definition.model_dump(mode="json", include={"steps", "on_failure"}, exclude_none=True)
    if not dict(_named(document)):
        return
    await connection.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_SAVING, str(account_id)))
    errors = await errors_of(connection, account_id, automation_id, document)
    if errors:
        raise Invalid([FieldError(*error) for error in errors])


async def _errors_below(
    connection: Connection, account_id: UUID, automation_id: UUID | None, pointer: str, child: UUID
) -> list[Finding]:
    level = {child}
    for _ in range(MAX_DEPTH):
        if automation_id in level:
            message = "This workflow would run itself, by way of others perhaps: it could never end."
            return [Finding(pointer, "workflow_cycle", message)]
        cursor = await connection.execute(_CHILDREN, (account_id, list(level)))
        texts = [row["child"] for row in await cursor.fetchall()]
        level = {found for text in texts if text is not None and (found := parse_id(text)) is not None}
        if not level:
            return []
    message = f"Workflows may run each other at most {MAX_DEPTH} deep."
    return [Finding(pointer, "workflow_too_deep", message)]


def _named(document: Any) -> Iterator[tuple[str, UUID]]:
    """The workflows that a document names, as far as it can be read, each by its pointer."""
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
