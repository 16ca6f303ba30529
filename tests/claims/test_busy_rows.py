"""Writers wait for nobody: what somebody else has locked is told apart from what is lost, and tried again."""

from __future__ import annotations

import pytest

from database import Database
from models.identifiers import new_id
from models.runs.run_writes import Change, End, WriteResult, record_changes_if_claimed
from tests.claims.conftest import NewRuns


async def write(database: Database, *changes: Change) -> WriteResult:
    async with database.connection() as connection:
        return await record_changes_if_claimed(connection, changes)


async def test_a_change_of_a_run_that_somebody_has_locked_is_busy_and_the_others_are_written(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([1, 2])
    locked, free = carried.run_ids
    ends = [Change(claim_id, run_id, then=End("completed")) for run_id, claim_id in carried.claims.items()]
    async with database.transaction() as connection:
        await connection.execute("select from run_work where run_id = %s for update", (locked,))
        written = await write(database, *ends)
    assert (written.runs, written.busy) == ({free}, {locked})
    assert await write(database, *ends) == WriteResult({locked}, set(), False, set())


@pytest.mark.parametrize("lock", ["for update", "for no key update"])
async def test_the_end_of_a_child_whose_parent_somebody_has_locked_is_busy(
    database: Database, new_runs: NewRuns, lock: str
) -> None:
    parent_id, _ = (await new_runs([1])).only
    child_id, claim_id = (await new_runs([1])).only
    end = Change(claim_id, child_id, then=End("completed"), parent_run_id=parent_id)
    async with database.transaction() as connection:
        await connection.execute(
            "select from run_work where run_id = %s " + lock,  # pyright: ignore[reportArgumentType]
            (parent_id,),
        )
        assert (await write(database, end)).busy == {child_id}
    assert await write(database, end) == WriteResult({child_id}, set(), True, set())


async def test_the_end_of_a_child_whose_parent_has_ended_is_written(
    database: Database, new_runs: NewRuns
) -> None:
    child_id, claim_id = (await new_runs([1])).only
    end = Change(claim_id, child_id, then=End("completed"), parent_run_id=new_id())
    assert (await write(database, end)).runs == {child_id}


async def test_what_another_has_claimed_is_neither_written_nor_busy(
    database: Database, new_runs: NewRuns
) -> None:
    run_id, _ = (await new_runs([1])).only
    async with database.transaction() as connection:
        await connection.execute("select from run_work where run_id = %s for update", (run_id,))
        change = Change(new_id(), run_id, then=End("completed"))
        assert await write(database, change) == WriteResult(set(), set(), False, set())
