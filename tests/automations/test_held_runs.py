"""Workflows at their limit of runs under way: what is beyond it leaves the queue, and comes back in turn."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from database import Database
from models import cancelling, run_work
from models.run_work import Claim
from models.run_writes import Change, End, record_changes_if_leased
from models.targets import Target
from tests.automations.claims import claim, claimed, claims
from tests.automations.engine import NewTarget, accept

pytestmark = pytest.mark.usefixtures("no_work")


@pytest.fixture
async def no_work(database: Database) -> None:
    """Nothing that an earlier test has left is claimed."""
    async with database.connection() as connection:
        await connection.execute("delete from run_work")
        await connection.execute("delete from batches")


async def limit(database: Database, target: Target, runs: int | None) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "update automations set concurrency_limit = %s where id = %s", (runs, target.automation_id)
        )


async def held(database: Database) -> set[UUID]:
    async with database.connection() as connection:
        cursor = await connection.execute("select run_id from run_work where held")
        return {row["run_id"] for row in await cursor.fetchall()}


async def end(database: Database, found: Claim) -> None:
    async with database.connection() as connection:
        changes = [Change(found.lease, run.run_id, then=End("completed")) for run in found.runs]
        await record_changes_if_leased(connection, changes)


async def promote(database: Database, after: int = 0) -> tuple[int, int]:
    async with database.connection() as connection:
        return await run_work.promote_held(connection, after)


async def test_runs_beyond_the_limit_leave_the_queue_until_one_ends(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target([])
    await limit(database, target, 1)
    first, second, third = await accept(database, target, 3)
    begun = await claimed(database)
    assert [run.run_id for run in begun.runs] == [first]
    assert await claim(database) is True
    assert await held(database) == {second, third}
    assert await claim(database) is False
    await end(database, begun)
    assert await held(database) == {third}
    assert [run.run_id for run in (await claimed(database)).runs] == [second]


async def test_a_limit_that_is_raised_lets_held_runs_begin_at_the_next_sweep(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target([])
    await limit(database, target, 1)
    run_ids = await accept(database, target, 4)
    await claimed(database)
    await claim(database)
    assert await promote(database) == (0, 0)
    await limit(database, target, 3)
    assert await promote(database) == (2, 0)
    assert await claims(database) == [run_ids[1:3]]
    await limit(database, target, None)
    assert (await promote(database))[0] == 1


async def test_a_place_that_a_cancelled_run_leaves_is_found_by_the_sweep(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target([])
    await limit(database, target, 1)
    first, second = await accept(database, target, 2)
    await claimed(database)
    await claim(database)
    async with database.connection() as connection:
        await cancelling.cancel(connection, target.account_id, first)
    assert (await promote(database))[0] == 1
    assert await claims(database) == [[second]]


async def test_a_held_run_can_be_cancelled(database: Database, new_target: NewTarget) -> None:
    target = await new_target([])
    await limit(database, target, 1)
    _, second = await accept(database, target, 2)
    await claimed(database)
    await claim(database)
    async with database.connection() as connection:
        assert await cancelling.cancel(connection, target.account_id, second) == [second]
    assert await held(database) == set()


async def test_an_account_at_all_its_limits_is_looked_at_once_and_then_goes_behind_the_others(
    database: Database, new_target: NewTarget
) -> None:
    targets = [await new_target([])]
    targets += [await new_target([], account_id=targets[0].account_id) for _ in range(5)]
    for target in targets:
        await limit(database, target, 1)
        await accept(database, target, 2)
    neighbour = await new_target([])
    assert len(await claims(database)) == len(targets)
    [run_id] = await accept(database, neighbour)
    assert [run.run_id for run in (await claimed(database)).runs] == [run_id]
    await claim(database)
    assert len(await held(database)) == len(targets)
    assert await claim(database) is False


async def test_a_run_that_has_begun_goes_on_beyond_the_limit(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target([])
    await limit(database, target, 1)
    first, second = await accept(database, target, 2)
    begun: Any = await claimed(database)
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set status = 'queued', batch_id = null where run_id = %s", (first,)
        )
        await connection.execute("delete from batches where id = %s", (begun.lease.batch_id,))
    again = await claimed(database)
    assert [run.run_id for run in again.runs] == [first]
    await claim(database)
    assert await held(database) == {second}
