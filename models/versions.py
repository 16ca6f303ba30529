"""Versions of workflows: what they were before. They are written with each change, and never changed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from pydantic import BaseModel, Field

from database import Connection
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
    description: str | None = Field(description="What it was for.")
    trigger: dict[str, Any] = Field(description="What started its runs.")
    steps: list[dict[str, Any]] = Field(description="What a run did.")
    input_schema: dict[str, Any] | None = Field(
        description="The JSON Schema that inputs had to meet; null for none."
    )
    concurrency: dict[str, Any] | None = Field(description="How many runs of it there could be at a time.")
    on_failure: dict[str, Any] | None = Field(description="What ran when a run of it had failed.")
    agents: bool = Field(description="Whether agents could use it.")
    created_at: datetime = Field(description="When it was saved.")
    created_by: str = Field(description="Who saved it.")


# Field → what it is where a definition does not have it: to write that out changes nothing.
_DEFAULTS: dict[LiteralString, LiteralString] = {
    "name": "null",
    "description": "null",
    "trigger": '{"type": "manual"}',
    "steps": "[]",
    "input_schema": "null",
    "concurrency": "null",
    "on_failure": "null",
    "agents": "true",
}
_CHANGES: LiteralString = ", ".join(
    f"case when coalesce((v.definition->'{name}')::jsonb, '{default}')"
    f" <> coalesce((p.definition->'{name}')::jsonb, '{default}') then '{name}' end"
    for name, default in _DEFAULTS.items()
)
_LIST: LiteralString = (
    "select v.version, v.definition->>'name' as name, v.created_at, v.created_by,"
    f" case when p.version is null then '{{}}' else array_remove(array[{_CHANGES}], null) end as changes"
    " from automation_versions v left join automation_versions p"
    "  on p.automation_id = v.automation_id and p.version = v.version - 1"
    " where v.automation_id = %(id)s and (%(before)s::int is null or v.version < %(before)s)"
    " order by v.version desc limit %(limit)s"
)


async def list_page(
    connection: Connection, account_id: UUID, automation_id: UUID, *, before: int | None, limit: int
) -> tuple[list[VersionView], int | None]:
    """Versions older than `before`, newest first, and the `before` of the next page if there is one.

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
    views = [VersionView(**row) for row in rows[:limit]]
    return views, views[-1].version if len(rows) > limit else None


async def get(
    connection: Connection, account_id: UUID, automation_id: UUID, version: int
) -> VersionDefinition:
    """One version.

    Raises:
        NotFound: there is none with this number; the workflow is unknown, or another account's.
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
        description=definition.get("description"),
        trigger=definition.get("trigger", {"type": "manual"}),
        steps=definition.get("steps", []),
        input_schema=definition.get("input_schema"),
        concurrency=definition.get("concurrency"),
        on_failure=definition.get("on_failure"),
        agents=definition.get("agents", True),
        created_at=row["created_at"],
        created_by=row["created_by"],
    )


async def load_definition(connection: Connection, automation_id: UUID, version: int) -> dict[str, Any]:
    """The definition of a version as it was saved, deleted workflows' too.

    Raises:
        NotFound: there is no such version.
    """
    cursor = await connection.execute(
        "select definition from automation_versions where automation_id = %s and version = %s",
        (automation_id, version),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("workflow")
    return row["definition"]
