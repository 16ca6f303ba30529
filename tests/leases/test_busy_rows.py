"""Writers wait for nobody: what somebody else has locked is told apart from what is lost, and tried again."""

from __future__ import annotations

from uuid import UUID

import pytest

from database import Database
from models import leases
from models.identifiers import new_id
from models.leases import Lease
from models.run_writes import Change, End, Written, record_changes_if_leased
from tests.leases.conftest import Batch, NewBatch


async def taken(database: Database, batch: Batch) -> Lease:
    async with database.connection() as connection:
        taken = await leases.take_over(connection, batch.id, new_id())
    assert taken is not None
    return taken.lease


async def write(database: Database, *changes: Change) -> Written:
    async with database.connection() as connection:
        return await record_changes_if_leased(connection, changes)


async def test_a_change_of_a_run_that_somebody_has_locked_is_busy_and_the_others_are_written(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([1, 2])
    locked, free = batch.run_ids
    lease = await taken(database, batch)
    ends = [Change(lease, run_id, then=End("completed")) for run_id in batch.run_ids]
    async with database.transaction() as connection:
        await connection.execute("select from run_work where run_id = %s for update", (locked,))
        written = await write(database, *ends)
    assert (written.runs, written.busy) == ({free}, {locked})
    assert await write(database, *ends) == Written({locked}, set(), False)


@pytest.mark.parametrize("lock", ["for update", "for no key update"])
async def test_the_end_of_a_child_whose_parent_somebody_has_locked_is_busy(
    database: Database, new_batch: NewBatch, lock: str
) -> None:
    [parent_id] = (await new_batch([1])).run_ids
    batch = await new_batch([1])
    [child_id] = batch.run_ids
    end = Change(await taken(database, batch), child_id, then=End("completed"), parent_run_id=parent_id)
    async with database.transaction() as connection:
        await connection.execute(
            "select from run_work where run_id = %s " + lock,  # pyright: ignore[reportArgumentType]
            (parent_id,),
        )
        assert (await write(database, end)).busy == {child_id}
    assert await write(database, end) == Written({child_id}, set(), True)


async def test_the_end_of_a_child_whose_parent_has_ended_is_written(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([1])
    [child_id] = batch.run_ids
    end = Change(await taken(database, batch), child_id, then=End("completed"), parent_run_id=new_id())
    assert (await write(database, end)).runs == {child_id}


async def test_what_another_executor_has_is_neither_written_nor_busy(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([1])
    mine = Lease(batch.id, new_id())
    theirs: list[UUID] = batch.run_ids
    async with database.transaction() as connection:
        await connection.execute("select from run_work where run_id = any(%s) for update", (theirs,))
        change = Change(mine, theirs[0], then=End("completed"))
        assert await write(database, change) == Written(set(), set(), False)
