"""Runs that should have gone on are counted by what they are stuck at."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString

import pytest

from api.http.metrics import Local, read_shared, render
from database import Database
from models.runs import stuck_runs
from models.runs.own_runs import WORKFLOW
from models.runs.stuck_runs import StuckRuns
from tests.claims.conftest import NewRuns

STUCK = {
    "untaken": ("update run_work set carrier = '{0}', handed_at = now() - interval '{1} seconds'", 16, 14),
    "overdue": ("update run_work set status = 'waiting', wake_at = now() - interval '{1} seconds'", 6, 4),
    "held": (
        "update run_work set status = 'queued', held = true, gate = automation_id,"
        " available_at = now() - interval '{1} seconds'", 6, 4,
    ),
}  # fmt: skip
NONE = StuckRuns(0, 0, 0, 0)


@pytest.mark.parametrize("why", STUCK)
async def test_a_run_is_counted_when_no_sweep_has_found_it_for_long(
    database: Database, new_runs: NewRuns, why: str
) -> None:
    change, long, brief = STUCK[why]
    async with database.connection() as connection:
        await connection.execute("delete from run_work")
        carried = await new_runs([1, 2])
        await connection.execute(
            "insert into gates (workflow_id, lim, begun) values (%s, 3, 2)", (carried.automation_id,)
        )
        for seconds, expected in ((long, 1 if why == "held" else 2), (brief, 0)):
            await connection.execute(change.format(WORKFLOW, seconds).encode())
            assert await stuck_runs.count(connection) == NONE._replace(**{why: expected})


async def test_runs_that_wait_for_a_place_are_counted(database: Database, new_runs: NewRuns) -> None:
    async with database.connection() as connection:
        await connection.execute("delete from run_work")
        await new_runs([1, 2])
        await connection.execute("update run_work set status = 'queued', own = true")
        assert await stuck_runs.count(connection) == NONE._replace(own_backlog=2)


@pytest.mark.parametrize(
    ("change", "age"),
    [
        ("delete from run_work", 0),
        ("update run_work set status = 'queued', available_at = now() + interval '1 hour'", 0),
        ("update run_work set status = 'queued', available_at = now() - interval '1 hour', held = true", 0),
        (
            "update run_work set status = 'queued', available_at = now() - n * interval '1 hour'"
            " from (select run_id as id, row_number() over () as n from run_work) w where id = run_id",
            2 * 3600,
        ),
    ],
    ids=["none", "later", "held", "two"],
)
async def test_the_age_of_the_queue_is_that_of_the_run_that_waits_longest(
    database: Database, new_runs: NewRuns, change: LiteralString, age: float
) -> None:
    async with database.connection() as connection:
        await connection.execute("delete from run_work")
        await new_runs([1, 2])
        await connection.execute(change)
        assert await stuck_runs.find_queue_age(connection) == pytest.approx(age, abs=10)


async def test_what_is_stuck_is_told_by_its_kind(database: Database, tmp_path: Path) -> None:
    async with database.connection() as connection:
        shared = (await read_shared(connection))._replace(stuck=StuckRuns(1, 2, 3, 4))
    told = render(Local({}, tmp_path), shared).decode().splitlines()
    for why, runs in (("untaken", "1.0"), ("overdue", "2.0"), ("held", "3.0")):
        assert f'vedette_stuck_runs{{why="{why}"}} {runs}' in told
    assert "vedette_own_backlog 4.0" in told
