"""What a queued run waits for, as the view of its carrier says."""

from __future__ import annotations

from uuid import UUID

import pytest

from database import Database
from models.automations.run_targets import RunTarget
from models.runs import carriers
from tests.automations.claims import claim, lose, new_shift
from tests.automations.engine import NewTarget, accept
from tests.claims.rows import limited

pytestmark = pytest.mark.usefixtures("nothing_waits")


async def queued_for(database: Database, target: RunTarget, run_id: UUID) -> str | None:
    async with database.connection() as connection:
        return (await carriers.get(connection, target.account_id, run_id)).queued_for


@pytest.mark.parametrize(
    ("execution", "what"), [("auto", "worker"), ("shift", "worker"), ("workflow", "place")]
)
async def test_a_run_waits_for_whoever_may_carry_it(
    database: Database, new_target: NewTarget, execution: str, what: str
) -> None:
    target = await new_target(execution=execution)
    [run_id] = await accept(database, target)
    assert await queued_for(database, target, run_id) == what
    await claim(database, own=execution == "workflow")
    assert await queued_for(database, target, run_id) is None


async def test_a_run_beyond_the_limit_of_its_workflow_waits_for_the_end_of_another(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 1)
    run_ids = await accept(database, target, 2)
    for _ in run_ids:
        await claim(database)
    assert [await queued_for(database, target, run_id) for run_id in run_ids] == [None, "limit"]


async def test_a_run_with_which_two_workers_were_lost_waits_for_an_idle_one(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target(execution="workflow")
    [run_id] = await accept(database, target)
    for _ in range(2):
        shift_id = await new_shift(database)
        await claim(database, shift_id, own=True)
        await lose(database, shift_id)
    assert await queued_for(database, target, run_id) == "idle_worker"
