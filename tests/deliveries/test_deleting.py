"""An endpoint is deleted while attempts to reach it are being recorded."""

from __future__ import annotations

import asyncio

from database import Connection
from models.webhooks import endpoints
from tests.automations.engine import until
from tests.deliveries.receivers import Hooks


async def backend(connection: Connection) -> int:
    cursor = await connection.execute("select pg_backend_pid() as pid")
    row = await cursor.fetchone()
    assert row is not None
    return row["pid"]


async def test_a_deletion_locks_deliveries_first_as_recording_does(hooks: Hooks) -> None:
    """Else each would wait for the other."""
    endpoint_id = await hooks.endpoint("http://127.0.0.1:9/")
    await hooks.emit(2)
    async with hooks.database.transaction() as deleting:
        pid = await backend(deleting)

        async def waits() -> bool:
            async with hooks.database.connection() as connection:
                cursor = await connection.execute("select cardinality(pg_blocking_pids(%s)) as n", (pid,))
                row = await cursor.fetchone()
            return row is not None and row["n"] > 0

        async with hooks.database.transaction() as recording:
            await recording.execute(
                "select from delivery_work where endpoint_id = %s limit 1 for update", (endpoint_id,)
            )
            deletion = asyncio.create_task(endpoints.delete(deleting, hooks.actor, endpoint_id))
            await until(waits)
            await recording.execute(
                "select from endpoints where id = %s for no key update nowait", (endpoint_id,)
            )
        await deletion
    assert [row["status"] for row in await hooks.rows()] == ["failed", "failed"]
