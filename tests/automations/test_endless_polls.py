"""A worker that stops though its SDK does not."""

from __future__ import annotations

import signal

from database import Database
from settings import Settings
from tests.automations.engine import NewTarget, accept, process, send_signal, transform, until
from tests.stacks import eventually


async def test_a_worker_ends_though_its_sdk_never_ends_its_polls(
    open_settings: Settings, database: Database, new_target: NewTarget
) -> None:
    target = await new_target([transform("end", "'done'")], execution="workflow")
    [run_id] = await accept(database, target)

    async def polls() -> bool:
        """Whether a workflow of the run's own has brought it to its end."""
        async with database.connection() as connection:
            cursor = await connection.execute("select status from runs where id = %s", (run_id,))
            row = await cursor.fetchone()
        return row is not None and row["status"] == "completed"

    with process(open_settings, "tests.automations.endless_worker", "worker") as stopping:
        await until(polls)
        send_signal(stopping, signal.SIGTERM)
        await eventually(lambda: stopping.exitcode is not None, 20, "the worker has ended")
        assert stopping.exitcode == 0
