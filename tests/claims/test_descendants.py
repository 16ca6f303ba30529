"""Runs below one that is cancelled: all of them end with it, those that are accepted at that moment too."""

from __future__ import annotations

import asyncio
from uuid import UUID

from database import Connection, Database
from models.automations import run_targets
from models.runs import cancellation, child_runs
from models.runs.acceptance import RunRequest, accept
from models.runs.run_writes import Change, End, record_changes_if_claimed
from tests.automations.engine import until
from tests.claims.conftest import NewRuns
from tests.claims.rows import waiting


async def begin_below(connection: Connection, run_id: UUID) -> UUID:
    """Accept a child of a run, of the same workflow."""
    assert await child_runs.lock_place_below(connection, run_id) is not None
    cursor = await connection.execute("select account_id, automation_id from runs where id = %s", (run_id,))
    row = await cursor.fetchone()
    assert row is not None
    target = await run_targets.event_target(connection, row["account_id"], row["automation_id"])
    [accepted] = await accept(connection, [RunRequest(target, "workflow", {}, parent_run_id=run_id, depth=1)])
    return accepted.run_id


async def test_a_run_that_is_begun_below_a_child_at_that_moment_is_cancelled_with_it(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([{}])
    run_id, _ = carried.only
    async with database.transaction() as connection:
        child_id = await begin_below(connection, run_id)

    async def cancel() -> list[UUID]:
        async with database.connection() as connection:
            return await cancellation.cancel(connection, carried.account_id, run_id)

    async with database.transaction() as connection:
        grandchild_id = await begin_below(connection, child_id)
        cancelled = asyncio.create_task(cancel())
        await until(lambda: waiting(database, 1))
    assert await cancelled == [run_id, child_id, grandchild_id]


async def test_a_child_ends_while_its_parent_is_cancelled_and_neither_waits_for_the_other(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([{}])
    run_id, _ = carried.only
    child_id, claim_id = (await new_runs([{}])).only
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set parent_run_id = %s where run_id = %s", (run_id, child_id)
        )
    end = Change(claim_id, child_id, [], End("completed"), run_id)

    async def write() -> set[UUID]:
        async with database.connection() as connection:
            return (await record_changes_if_claimed(connection, [end])).runs

    async def cancel() -> list[UUID]:
        async with database.connection() as connection:
            return await cancellation.cancel(connection, carried.account_id, run_id)

    async with database.transaction() as connection:
        # Here the write stops: it holds the child's row, and has not woken the parent.
        await connection.execute("select from runs where id = %s for update", (child_id,))
        written = asyncio.create_task(write())
        await until(lambda: waiting(database, 1))
        cancelled = asyncio.create_task(cancel())
        await until(lambda: waiting(database, 2))
    assert await written == {child_id}
    assert await cancelled == [run_id]
