"""What kills its worker again and again goes alone, however long it takes; setbacks are forgotten."""

from __future__ import annotations

import pytest

from database import Database
from models.priorities import ALONE
from models.runs import run_work, setbacks, shifts
from models.runs.run_writes import Change, Wait, record_changes_if_claimed
from tests.automations.claims import claimed, lose, new_shift, record, record_of
from tests.automations.engine import NewTarget, accept

pytestmark = pytest.mark.usefixtures("nothing_waits")
SHOWN = '{"steps": {"a": {"began": "2026-11-26T12:00:00Z", "attempts": 1}}}'


async def test_a_run_that_kills_its_worker_within_a_call_that_is_shown_goes_alone(
    database: Database, new_target: NewTarget
) -> None:
    """What is under way for half a second is written, and nothing has come of it."""
    [run_id] = await accept(database, await new_target())
    for _ in range(4):
        shift_id = await new_shift(database)
        found = await claimed(database, shift_id)
        shown = Change(found[0].claim_id, run_id, then=Wait(None, SHOWN))
        async with database.connection() as connection:
            await record_changes_if_claimed(connection, [shown])
        await lose(database, shift_id)
        async with database.connection() as connection:
            if await run_work.waits_alone(connection):
                return
    raise AssertionError("four workers were lost with it, and it is beside others still")


async def test_a_setback_is_forgotten_by_what_the_run_does_afterwards(
    database: Database, new_target: NewTarget
) -> None:
    """One failure of each of two builds, a month apart and with steps between, is not hopeless."""
    [run_id] = await accept(database, await new_target())
    [run] = await claimed(database)
    async with database.connection() as connection:
        assert not await setbacks.set_run_aside(connection, run_id, run.claim_id, "a")
        await connection.execute("update run_work set available_at = now() where run_id = %s", (run_id,))
    [run] = await claimed(database)
    async with database.connection() as connection:
        assert await record(connection, run.claim_id, record_of(run_id)) == {run_id}
        await connection.execute(
            "update run_work set setbacks = jsonb_set(setbacks::jsonb, '{since}',"
            " to_jsonb(now() - interval '25 hours'))::json where run_id = %s and setbacks is not null",
            (run_id,),
        )
        assert not await setbacks.set_run_aside(connection, run_id, run.claim_id, "b")


async def test_of_the_suspects_of_a_version_one_costs_a_worker_at_a_time_and_later_and_later(
    database: Database, new_target: NewTarget
) -> None:
    """Else each of very many would cost one, as fast as workers can be started again."""
    target = await new_target()
    run_ids = set(await accept(database, target, 3))
    [other] = await accept(database, await new_target(account_id=target.account_id))
    async with database.connection() as connection:
        await connection.execute("update run_work set lost = 2, priority = priority + %s", (ALONE,))
    for seconds in (60, 120, 240):
        shift_id = await new_shift(database)
        [run] = await claimed(database, shift_id, alone=True, rows=1)
        assert run.run_id in run_ids
        async with database.connection() as connection:
            assert not await setbacks.note_trial(connection, run.run_id, run.claim_id, f"build {seconds}")
        await lose(database, shift_id)
        [left] = await claimed(database, alone=True, rows=4)
        assert left.run_id == other, "other versions go on"
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select extract(epoch from min(available_at) - now())::float as first, min(lost) as lost,"
                " array_agg(distinct setbacks::jsonb->'builds') as builds from run_work"
                " where automation_id = %s",
                (target.automation_id,),
            )
            row = await cursor.fetchone()
            assert row is not None and seconds - 30 < row["first"] <= seconds
            # Those that were not tried have the count and the builds of those that were.
            assert row["lost"] > 2 and len(row["builds"]) == 1
            await shifts.requeue_runs(connection, {other: left.claim_id})
            await connection.execute(
                "update run_work set available_at = now() - make_interval(secs => (run_id <> %s)::int)",
                (other,),
            )
    assert row["builds"] == [["build 120", "build 240", "build 60"]]
