"""The number of runs, which no list has to count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import pytest
from psycopg.rows import dict_row

from database import Connection, Database
from models.runs import run_counts
from tests.api_server import Api
from tests.runs.workflows import create, start

COUNTED = (
    "select automation_id, status, count(*)::int as runs from ("
    " select automation_id, status from runs where status is not null"
    " union all select automation_id, status from run_work) as r group by 1, 2 order by 1, 2"
)
SUMMED = (
    "select automation_id, status, sum(runs)::int as runs from run_counts"
    " group by 1, 2 having sum(runs) <> 0 order by 1, 2"
)
# The end of a run, as executors write it: its row of `run_work` goes in the same statement.
CHANGES = {
    "some begin": "update run_work set status = 'running' where automation_id = %(one)s",
    "each ends in some way": (
        "with gone as (delete from run_work returning run_id)"
        " update runs set status = case when input::text = '1' then 'failed' else 'completed' end,"
        " completed_at = now() from gone where id = run_id"
    ),
    "none changes its status": "update run_work set lost = lost + 1",
    "some end while others begin to wait": (
        "with gone as (delete from run_work where automation_id = %(one)s returning run_id),"
        " waiting as (update run_work set status = 'waiting' where automation_id = %(other)s)"
        " update runs set status = 'cancelled', completed_at = now() from gone where id = run_id"
    ),
    "some are deleted": (
        "with gone as (delete from run_work where automation_id = %(other)s)"
        " delete from runs where automation_id = %(other)s"
    ),
    "their workflow is deleted": "delete from automations where id = %(other)s",
    "their account is deleted": "delete from accounts where id = %(account)s",
    "nothing is found": "delete from runs where version = 99",
}


async def rows(connection: Connection, query: Any) -> list[dict[str, Any]]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query)
        return await cursor.fetchall()


@pytest.fixture
async def ids(api: Api, database: Database) -> AsyncGenerator[dict[str, UUID]]:
    """Two workflows of one account with two runs each, which are all there is."""
    person = await api.person()
    one, other = await create(person), await create(person)
    for workflow in (one, other):
        for n in range(2):
            await start(person, workflow, n)
    yield {"one": UUID(one), "other": UUID(other), "account": person.account.id}
    async with database.connection() as connection:
        await connection.execute("delete from run_work")
        await connection.execute("delete from runs")


@pytest.mark.parametrize("change", CHANGES)
async def test_the_sums_are_what_counting_gives(
    change: str, ids: dict[str, UUID], database: Database
) -> None:
    async with database.connection() as connection:
        assert len(await rows(connection, SUMMED)) == 2
        await connection.execute(CHANGES[change], ids)  # pyright: ignore[reportArgumentType]
        assert await rows(connection, SUMMED) == await rows(connection, COUNTED)


async def test_a_change_that_is_rolled_back_counts_for_nothing(
    ids: dict[str, UUID], database: Database
) -> None:
    async with database.connection() as connection:
        before = await rows(connection, SUMMED)
        async with connection.transaction(force_rollback=True):
            await connection.execute("delete from run_work")
        await connection.execute("delete from runs")
        assert await rows(connection, SUMMED) == before


async def test_added_up_by_many_at_once_the_sums_stay_in_a_row_each(
    ids: dict[str, UUID], database: Database
) -> None:
    async def churn() -> None:
        async with database.connection() as connection:
            for status in ("running", "waiting", "queued"):
                await connection.execute("update run_work set status = %s", (status,))
                await run_counts.compact(connection)

    await asyncio.gather(*(churn() for _ in range(6)))
    async with database.connection() as connection:
        await run_counts.compact(connection)
        counted = await rows(connection, COUNTED)
        assert await rows(connection, SUMMED) == counted
        assert len(await rows(connection, "select * from run_counts")) == len(counted) == 2


async def test_the_metrics_say_how_many_runs_are_not_over(
    api: Api, ids: dict[str, UUID], database: Database
) -> None:
    async with database.connection() as connection:
        await connection.execute(CHANGES["some end while others begin to wait"], ids)  # pyright: ignore[reportArgumentType]
    lines = (await api.http.get("/metrics")).text.splitlines()
    assert [line for line in lines if line.startswith("vedette_runs{")] == [
        'vedette_runs{status="queued"} 0.0',
        'vedette_runs{status="running"} 0.0',
        'vedette_runs{status="waiting"} 2.0',
    ]
