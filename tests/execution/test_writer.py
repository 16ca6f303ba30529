"""What the writer of a worker makes of changes that go together."""

from __future__ import annotations

import asyncio

import pytest

from activities.writing import RunWriter
from database import Database, Notifier
from models import leases
from models.identifiers import new_id
from models.leases import Change, End, Lease
from tests.leases.conftest import NewBatch


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
    notifier = Notifier(database)
    notifier.start()
    writer = RunWriter(database, notifier)
    await writer.open()
    try:
        written = await asyncio.gather(*(writer.write(change) for change in changes[::order]))
    finally:
        await writer.close()
        await notifier.stop()
    assert written[::order] == [False, True]
    async with database.connection() as connection:
        cursor = await connection.execute("select status from runs where id = %s", (run_id,))
        assert await cursor.fetchone() == {"status": "completed"}
