"""A run at work is in a shift that is there: none is ended during a claim for it, a sweep finds the rest."""

from __future__ import annotations

from typing import Any

from database import Database
from models.automations.run_targets import run_target
from models.identifiers import new_id
from models.runs import run_work, shifts
from models.runs.acceptance import RunRequest, accept
from models.runs.claim_requests import ClaimRequest
from tests.automations.claims import claim, new_shift
from tests.claims.conftest import NewRuns


async def row(database: Database, query: str, *values: Any) -> Any:
    async with database.connection() as connection:
        return await (await connection.execute(query, values)).fetchone()  # pyright: ignore[reportArgumentType]


async def test_what_a_claim_takes_for_a_shift_that_is_to_be_ended_is_queued_with_it(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([1])
    shift_id = await new_shift(database)

    async def end() -> int | None:
        async with database.connection() as connection:
            return await shifts.end(connection, shift_id, 0)

    async with database.transaction() as claiming:
        target = await run_target(claiming, carried.account_id, carried.automation_id)
        [accepted] = await accept(claiming, [RunRequest(target, "manual", 2)])
        found = await run_work.claim(claiming, shift_id, ClaimRequest())
        assert not isinstance(found, bool) and found.size == 1
        assert await end() is None
    assert await end() == 1
    work = await row(
        database, "select status, carrier, claim_id from run_work where run_id = %s", accepted.run_id
    )
    assert work == {"status": "queued", "carrier": None, "claim_id": None}


async def test_a_shift_that_is_not_there_claims_nothing(database: Database, new_runs: NewRuns) -> None:
    carried = await new_runs([1])
    async with database.connection() as connection:
        await shifts.release(connection, carried.shift_id)
    assert await claim(database, new_id()) is False
    assert not isinstance(await claim(database), bool)


async def test_a_sweep_queues_runs_at_work_in_a_shift_that_is_not_there(
    database: Database, new_runs: NewRuns
) -> None:
    lost, kept = await new_runs([1, 2]), await new_runs([3])
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set carrier = %s where run_id = any(%s)", (new_id(), lost.run_ids)
        )
        assert await run_work.count_strays(connection) == 2
        assert await run_work.queue_strays(connection) == 2
        assert await run_work.count_strays(connection) == 0
    found = "select array_agg(distinct status) as status from run_work where run_id = any(%s)"
    assert (await row(database, found, lost.run_ids))["status"] == ["queued"]
    assert (await row(database, found, kept.run_ids))["status"] == ["running"]
