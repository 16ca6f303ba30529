"""A run at work is in a batch that is there: a claim that joins one keeps it, a sweep finds the rest."""

from __future__ import annotations

import asyncio
from typing import Any

from database import Database
from models import run_work
from models.identifiers import new_id
from tests.automations.engine import until
from tests.leases.conftest import NewBatch
from tests.leases.test_descendants import waiting


async def row(database: Database, query: str, *values: Any) -> Any:
    async with database.connection() as connection:
        return await (await connection.execute(query, values)).fetchone()  # pyright: ignore[reportArgumentType]


async def test_a_batch_that_a_claim_joins_is_not_deleted_by_who_waited_for_the_claim(
    database: Database, new_batch: NewBatch
) -> None:
    batch, others = await new_batch([1]), await new_batch([2])
    async with database.connection() as connection:
        # It has no run, so whoever looks now would delete it.
        await connection.execute("delete from run_work where run_id = any(%s)", (batch.run_ids,))

    async def queue_due() -> tuple[int, float | None]:
        async with database.connection() as connection:
            return await run_work.queue_due(connection, batch.id)

    async with database.transaction() as claiming:
        # As `claim_runs` does: the batch first, then the runs that join it.
        await claiming.execute("update batches set runs = runs where id = %s", (batch.id,))
        deleting = asyncio.create_task(queue_due())
        await until(lambda: waiting(database, 1))
        await claiming.execute(
            "update run_work set batch_id = %s where run_id = any(%s)", (batch.id, others.run_ids)
        )
    await deleting
    assert await row(database, "select from batches where id = %s", batch.id) is not None


async def test_a_sweep_queues_runs_at_work_in_a_batch_that_is_not_there(
    database: Database, new_batch: NewBatch
) -> None:
    lost, kept = await new_batch([1, 2]), await new_batch([3])
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set batch_id = %s where run_id = any(%s)", (new_id(), lost.run_ids)
        )
        assert await run_work.count_strays(connection) == 2
        assert await run_work.queue_strays(connection) == 2
        assert await run_work.count_strays(connection) == 0
    found = "select array_agg(distinct status) as status from run_work where run_id = any(%s)"
    assert (await row(database, found, lost.run_ids))["status"] == ["queued"]
    assert (await row(database, found, kept.run_ids))["status"] == ["running"]
