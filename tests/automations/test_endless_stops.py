"""Processes that stop though what they wait for does not end."""

from __future__ import annotations

import signal

import httpx
import pytest

from database import Database
from settings import Settings
from tests.automations.engine import NewTarget, accept, process, send_signal, transform, until
from tests.stacks import eventually, free_port


@pytest.mark.long
@pytest.mark.parametrize("hangs", ["endless_worker", "hung_process"], ids=["the SDK's polls", "the database"])
async def test_a_worker_ends_though_what_it_waits_for_does_not(
    open_settings: Settings, database: Database, new_target: NewTarget, hangs: str
) -> None:
    with process(open_settings, f"tests.automations.{hangs}", "worker") as stopping:
        await has_carried_a_run(database, new_target)
        send_signal(stopping, signal.SIGTERM)
        await eventually(lambda: stopping.exitcode is not None, 20, "the worker has ended")
        assert stopping.exitcode == 0


@pytest.mark.long
async def test_an_api_ends_though_its_database_hangs(open_settings: Settings) -> None:
    port = free_port()
    with process(open_settings, "tests.automations.hung_process", "api", VEDETTE_PORT=str(port)) as stopping:
        await until(lambda: answers(port))
        send_signal(stopping, signal.SIGTERM)
        await eventually(lambda: stopping.exitcode is not None, 20, "the API has ended")
        assert stopping.exitcode == 0


async def has_carried_a_run(database: Database, new_target: NewTarget) -> None:
    """Wait until a workflow of its own has brought a run to its end: the worker polls."""
    target = await new_target([transform("end", "'done'")], execution="workflow")
    [run_id] = await accept(database, target)

    async def is_done() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute("select status from runs where id = %s", (run_id,))
            row = await cursor.fetchone()
        return row is not None and row["status"] == "completed"

    await until(is_done)


async def answers(port: int) -> bool:
    """Whether an API answers there."""
    async with httpx.AsyncClient() as client:
        try:
            return (await client.get(f"http://127.0.0.1:{port}/healthz")).is_success
        except httpx.TransportError:
            return False
