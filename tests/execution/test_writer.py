"""What the writer of a worker makes of changes that go together."""

from __future__ import annotations

import asyncio

import pytest

from activities.writing import RunWriter
from database import Database, Notifier
from models import leases
from models.identifiers import new_id
from models.leases import Lease
from models.run_writes import Change, End
from tests.leases.conftest import NewBatch


async def write(database: Database, changes: list[Change]) -> list[bool]:
    """Have a worker write these changes at one moment."""
    notifier = Notifier(database)
    notifier.start()
    writer = RunWriter(database, notifier)
    await writer.open()
    try:
        async with asyncio.timeout(20):
            return await asyncio.gather(*(writer.write(change) for change in changes))
    finally:
        await writer.close()
        await notifier.stop()


@pytest.mark.parametrize("order", [1, -1], ids=["overtaken first", "overtaken last"])
async def test_of_two_executors_in_one_process_only_the_one_that_holds_a_run_writes_it(
    database: Database, new_batch: NewBatch, order: int
) -> None:
    batch = await new_batch([1])
    async with database.connection() as connection:
        taken = await leases.take_over(connection, batch.id, new_id())
    assert taken is not None
    [run_id] = batch.run_ids
    changes = [
        Change(Lease(batch.id, new_id()), run_id, then=End("failed")),
        Change(taken.lease, run_id, then=End("completed")),
    ]
    written = await write(database, changes[::order])
    assert written[::order] == [False, True]
    async with database.connection() as connection:
        cursor = await connection.execute("select status from runs where id = %s", (run_id,))
        assert await cursor.fetchone() == {"status": "completed"}


async def test_what_a_run_writes_goes_beside_the_end_that_cancels_it(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([1, 2, 3])
    above, between, below = batch.run_ids
    async with database.connection() as connection:
        await connection.execute(
            "update run_work w set parent_run_id = n.parent"
            " from unnest(%s::uuid[], %s::uuid[]) n (id, parent) where w.run_id = n.id",
            ([between, below], [above, between]),
        )
        taken = await leases.take_over(connection, batch.id, new_id())
    assert taken is not None
    changes = [
        Change(taken.lease, above, then=End("failed", has_children=True)),
        Change(taken.lease, below, then=End("completed"), parent_run_id=between),
    ]
    assert (await write(database, changes))[0]
    async with database.connection() as connection:
        cursor = await connection.execute("select from run_work where run_id = any(%s)", (batch.run_ids,))
        assert cursor.rowcount == 0
