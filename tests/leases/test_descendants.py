"""Runs below one that is cancelled: all of them end with it, those that are accepted at that moment too."""

from __future__ import annotations

import asyncio
from uuid import UUID

from database import Connection, Database
from models import cancelling, children, targets
from models.accepting import Event, accept
from tests.automations.engine import until
from tests.leases.conftest import NewBatch


async def begin_below(connection: Connection, run_id: UUID) -> UUID:
    """Accept a child of a run, of the same workflow."""
    assert await children.depth_below(connection, run_id) is not None
    cursor = await connection.execute("select account_id, automation_id from runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    assert row is not None
    target = await targets.event_target(connection, row["account_id"], row["automation_id"])
    [accepted] = await accept(connection, [Event(target, "workflow", {}, parent_run_id=run_id, depth=1)])
    return accepted.run_id


async def test_a_run_that_is_begun_below_a_child_at_that_moment_is_cancelled_with_it(
    database: Database, new_batch: NewBatch
) -> None:
    [run_id] = (await new_batch([{}])).run_ids
    async with database.transaction() as connection:
        child_id = await begin_below(connection, run_id)
        cursor = await connection.execute("select account_id from runs where id = %s", (run_id,))
        row = await cursor.fetchone()
    assert row is not None

    async def cancel() -> list[UUID]:
        async with database.connection() as connection:
            return await cancelling.cancel(connection, row["account_id"], run_id)

    async def waits() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            return cursor.rowcount == 1

    async with database.transaction() as connection:
        grandchild_id = await begin_below(connection, child_id)
        cancelled = asyncio.create_task(cancel())
        await until(waits)
    assert await cancelled == [run_id, child_id, grandchild_id]
