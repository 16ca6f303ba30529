"""Objects of an account found by name; several objects may share a name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, LiteralString
from uuid import UUID

from database import Connection

_FIND: dict[str, LiteralString] = {
    "workflow": "select id, name from automations where account_id = %s and name = any(%s)"
    " and deleted_at is null order by id",
    "list": "select id, name from lists where account_id = %s and name = any(%s) order by id",
    "monitor": "select id, name from monitors where account_id = %s and name = any(%s)"
    " and deleted_at is null order by id",
}


async def find_ids(
    connection: Connection,
    account_id: UUID,
    noun: Literal["list", "monitor", "workflow"],
    names: Collection[str],
) -> dict[str, list[UUID]]:
    """Return the ids of an account's objects by name; names without an object are left out."""
    storable = [name for name in names if "\0" not in name]
    cursor = await connection.execute(_FIND[noun], (account_id, storable))
    found: dict[str, list[UUID]] = {}
    for row in await cursor.fetchall():
        found.setdefault(row["name"], []).append(row["id"])
    return found
