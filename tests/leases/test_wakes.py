"""A run that is at work is woken again when it parks, whatever it has looked for since something came."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from activities.answering import Answering
from database import Database
from engine.calls import Call
from language.definition import WaitStep
from models import resuming
from settings import Settings
from tests.leases.conftest import NewBatch


async def test_what_comes_for_one_step_wakes_the_run_though_another_is_looked_for_after_it(
    database: Database, new_batch: NewBatch
) -> None:
    [run_id] = (await new_batch([{}])).run_ids
    unused: Any = None
    answering = Answering(database, unused, unused, Settings())

    async def collect(step_id: str) -> bool:
        step = WaitStep.model_validate({"id": step_id, "type": "wait"})
        call = Call("collect", step, 1, {}, (), datetime.now(UTC))
        return not (await answering.collect(run_id, call, {})).pending

    assert not await collect("a")
    async with database.transaction() as connection:
        await resuming.resume(connection, run_id, "a", "for a")
    assert not await collect("b")
    async with database.connection() as connection:
        cursor = await connection.execute("select woken from run_work where run_id = %s", (run_id,))
        assert await cursor.fetchone() == {"woken": True}
