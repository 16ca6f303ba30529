"""The targets of lists and monitors: each kind of owner has a table of them, and counts them in its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from psycopg.sql import SQL, Identifier

from database import Connection
from models.errors import Conflict

MAX_TARGETS = 100_000
"""The most targets of a list, and of a monitor without a list."""

_CODE_OF = {"list": "list_full", "monitor": "monitor_full"}
_INSERT = SQL(
    "with added as (insert into {targets} ({owner_id}, target) select %(id)s, target"
    " from unnest(%(targets)s::text[]) with ordinality as given (target, place) order by place"
    " on conflict do nothing returning id), counted as (select count(*)::int as n from added)"
    " update {owners} set target_count = target_count + n, updated_at = now() from counted"
    " where id = %(id)s and n > 0 returning n, target_count"
)


async def insert_targets(
    connection: Connection, owner: Literal["list", "monitor"], owner_id: UUID, targets: Sequence[str]
) -> int:
    """Insert targets of a locked owner, without an audit entry; return the number of new ones.

    Raises:
        Conflict: the owner would have more than 100,000 targets.
    """
    statement = _INSERT.format(
        targets=Identifier(f"{owner}_targets"),
        owner_id=Identifier(f"{owner}_id"),
        owners=Identifier(f"{owner}s"),
    )
    cursor = await connection.execute(statement, {"id": owner_id, "targets": list(targets)})
    row = await cursor.fetchone()
    if row is None:
        return 0
    if row["target_count"] > MAX_TARGETS:
        code = _CODE_OF[owner]
        raise Conflict(
            code,
            f"A {owner} has at most {MAX_TARGETS:,} targets;"
            f" with these it would have {row['target_count']:,}.",
        )
    return row["n"]
