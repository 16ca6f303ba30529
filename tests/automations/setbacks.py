"""What tests do with runs with which our code fails, and with the versions that these are of."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg.types.json import Json

from database import Database
from tests.api_server import Api


async def metric(api: Api, name: str) -> str:
    """The value of a metric without labels."""
    lines = (await api.http.get("/metrics")).text.splitlines()
    [line] = [line for line in lines if line.startswith(f"{name} ")]
    return line.split()[1]


async def row_of(database: Database, run_id: UUID) -> dict[str, Any]:
    """Return what waits of a run."""
    async with database.connection() as connection:
        cursor = await connection.execute("select * from run_work where run_id = %s", (run_id,))
        row = await cursor.fetchone()
    assert row is not None
    return row


async def begun_with(database: Database, run_id: UUID, progress: Any) -> None:
    """Have a run begun, with this for its progress."""
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set progress = %s, begun = true where run_id = %s", (Json(progress), run_id)
        )


async def define(database: Database, workflow_id: UUID | str, definition: Any) -> Any:
    """Write a definition into the row of a workflow's version; the one that was there."""
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "select definition from automation_versions where automation_id = %s", (workflow_id,)
        )
        row: Any = await cursor.fetchone()
        await connection.execute(
            "update automation_versions set definition = %s where automation_id = %s",
            (Json(definition), workflow_id),
        )
    return row["definition"]


async def try_again_now(database: Database) -> None:
    """Have no version set aside any longer, and no run wait."""
    async with database.connection() as connection:
        await connection.execute("update versions_aside set aside_until = now()")
        await connection.execute("update run_work set available_at = now()")
