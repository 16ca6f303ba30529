"""Versions of workflows. A version is written with each change, and never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import orjson
from pydantic import BaseModel, Field

from database import Connection
from language.definition import Definition, Execution
from models.errors import NotFound


class VersionView(BaseModel, frozen=True):
    """One version, and which fields of the workflow it changed."""

    version: int = Field(description="The version's number, from 1.")
    name: str = Field(description="What the workflow was called.")
    created_at: datetime = Field(description="When it was saved.")
    created_by: str = Field(description="Who saved it.")
    changes: list[str] = Field(description="The fields that differ from the version before.")


class VersionDefinition(BaseModel, frozen=True):
    """The workflow as it was. Its status is not part of a version."""

    version: int = Field(description="The version's number, from 1.")
    name: str = Field(description="What the workflow was called.")
    description: str = Field(description="What it was for; empty where nobody has said.")
    trigger: dict[str, Any] = Field(description="What started its runs.")
    steps: list[dict[str, Any]] = Field(description="What a run did.")
    input_schema: dict[str, Any] | None = Field(
        description="The JSON Schema that inputs had to meet; null for none."
    )
    concurrency: dict[str, Any] | None = Field(description="How many runs of it there could be at a time.")
    on_failure: dict[str, Any] | None = Field(description="What ran when a run of it had failed.")
    search: list[str] = Field(description="Paths into the event: runs were found by the values there.")
    agents: bool = Field(description="Whether agents could use it.")
    execution: Execution | None = Field(description="What carried its runs; null: as is set.")
    created_at: datetime = Field(description="When it was saved.")
    created_by: str = Field(description="Who saved it.")


VersionKey = tuple[UUID, int]
"""A workflow's id and the number of one of its versions."""


class StoredVersion(NamedTuple):
    """The definition of a version, and its size as JSON, in bytes."""

    definition: dict[str, Any]
    size: int


# Field → its value if a definition leaves it out: to write out the default is no change.
_DEFAULTS: dict[LiteralString, LiteralString] = {
    "name": "null",
    "description": '""',
    "trigger": '{"type": "manual"}',
    "steps": "[]",
    "input_schema": "null",
    "concurrency": "null",
    "on_failure": "null",
    "search": "[]",
    "agents": "true",
    "execution": "null",
}
_DIFFERENT: LiteralString = ", ".join(
    f"case when coalesce(nullif(n.definition->'{name}', 'null'), '{default}')"
    f" <> coalesce(nullif(p.definition->'{name}', 'null'), '{default}') then '{name}' end"
    for name, default in _DEFAULTS.items()
)
# Each definition is parsed once, although it is compared with the versions before and after it.
_COMPARE: LiteralString = f"""
with parsed as materialized (
  select version, definition::jsonb as definition from automation_versions
  where automation_id = %(id)s and (version = any(%(versions)s) or version + 1 = any(%(versions)s))
)
update automation_versions v set name = n.definition->>'name',
  changes = case when p.version is null then '{{}}' else array_remove(array[{_DIFFERENT}], null) end
from parsed n left join parsed p on p.version = n.version - 1
where v.automation_id = %(id)s and v.version = n.version and v.version = any(%(versions)s)
"""
_LIST: LiteralString = (
    "select version, name, created_at, created_by, changes from automation_versions"
    " where automation_id = %(id)s and (%(before)s::int is null or version < %(before)s)"
    " order by version desc limit %(limit)s"
)


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the fields in which two stored definitions differ."""
    return [
        name
        for name, default in _DEFAULTS.items()
        if _text(before.get(name), default) != _text(after.get(name), default)
    ]


def _text(given: Any, default: str) -> bytes:
    value = orjson.loads(default) if given is None else given
    # 1 and true are equal in Python.
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


async def list_page(
    connection: Connection, account_id: UUID, automation_id: UUID, *, before: int | None, limit: int
) -> tuple[list[VersionView], int | None]:
    """Return versions older than `before`, newest first, and the `before` of the next page if there is one.

    Versions that an earlier release stored are compared now, and the comparison is stored.

    Raises:
        NotFound: the workflow is unknown, or another account's.
    """
    cursor = await connection.execute(
        "select 1 from automations where account_id = %s and id = %s and deleted_at is null",
        (account_id, automation_id),
    )
    if await cursor.fetchone() is None:
        raise NotFound("workflow")
    wanted = {"id": automation_id, "before": before, "limit": limit + 1}
    rows = await (await connection.execute(_LIST, wanted)).fetchall()
    if uncompared := [row["version"] for row in rows if row["changes"] is None]:
        await connection.execute(_COMPARE, {"id": automation_id, "versions": uncompared})
        rows = await (await connection.execute(_LIST, wanted)).fetchall()
    views = [VersionView(**row) for row in rows[:limit]]
    return views, views[-1].version if len(rows) > limit else None


async def get(
    connection: Connection, account_id: UUID, automation_id: UUID, version: int
) -> VersionDefinition:
    """Return one version.

    Raises:
        NotFound: there is no version with this number, or the workflow is unknown, or another account's.
    """
    cursor = await connection.execute(
        "select v.* from automation_versions v join automations a on a.id = v.automation_id"
        " where a.account_id = %s and a.id = %s and a.deleted_at is null and v.version = %s",
        (account_id, automation_id, version),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("version")
    definition: dict[str, Any] = row["definition"]
    return VersionDefinition(
        version=row["version"],
        name=definition["name"],
        description=definition.get("description") or "",
        trigger=definition.get("trigger", {"type": "manual"}),
        steps=definition.get("steps", []),
        input_schema=definition.get("input_schema"),
        concurrency=definition.get("concurrency"),
        on_failure=definition.get("on_failure"),
        search=definition.get("search", []),
        agents=definition.get("agents", True),
        execution=definition.get("execution"),
        created_at=row["created_at"],
        created_by=row["created_by"],
    )


async def get_definition(
    connection: Connection, account_id: UUID, automation_id: UUID, version: int
) -> Definition:
    """Return the definition of a version.

    Raises:
        NotFound: as `get`.
    """
    found = await get(connection, account_id, automation_id, version)
    return Definition.model_validate(found.model_dump(include=set(Definition.model_fields), by_alias=True))


async def load_definitions(
    connection: Connection, keys: Sequence[VersionKey]
) -> dict[VersionKey, StoredVersion]:
    """Load the stored definitions of versions, also of deleted workflows; unknown versions are left out."""
    cursor = await connection.execute(
        "select automation_id, version, definition, octet_length(definition::text) as size"
        " from automation_versions"
        " where (automation_id, version) in (select * from unnest(%s::uuid[], %s::int[]))",
        ([automation_id for automation_id, _ in keys], [version for _, version in keys]),
    )
    return {
        (row["automation_id"], row["version"]): StoredVersion(row["definition"], row["size"])
        for row in await cursor.fetchall()
    }
