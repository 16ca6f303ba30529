"""Runs are cancelled, however many, also one that is just being written."""

from __future__ import annotations

import asyncio

import pytest

from database import Database
from models.runs import cancellation
from tests.automations.engine import NewTarget, accept, until

_BLOCKED = "select from pg_locks where not granted"


@pytest.mark.parametrize("runs", [1, 3, 20])
async def test_a_cancel_that_waits_for_another_write_ends_all_runs(
    database: Database, new_target: NewTarget, runs: int
) -> None:
    target = await new_target([])
    run_ids = await accept(database, target, runs)

    async def cancel() -> list[object]:
        async with database.connection() as connection:
            return [*(await cancellation.cancel_these(connection, target.account_id, run_ids))[0]]

    async def is_blocked() -> bool:
        async with database.connection() as connection:
            return bool((await connection.execute(_BLOCKED)).rowcount)

    async with database.transaction() as connection:
        await connection.execute("update run_work set woken = true where run_id = %s", (run_ids[-1],))
        cancelling = asyncio.create_task(cancel())
        await until(is_blocked)
    assert await cancelling == sorted(run_ids)
