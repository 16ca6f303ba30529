"""Claiming, fencing and ending: what Postgres guarantees however many processes take part."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

from database import Database
from language.records import INLINE_BYTES, StepError, StepRecord
from models import batches
from models.automations import BULK
from tests.automations.engine import NewAccount, NewTarget, accept, transform
from workflows.messages import Batch, Ending, Progress


async def claim(database: Database, **limits: int) -> Batch | None:
    async with database.transaction() as connection:
        return await batches.claim(connection, **limits)


def record(run_id: UUID, output: object = None, step_id: str = "a", position: int = 0) -> StepRecord:
    now = datetime.now(UTC)
    return StepRecord(
        run_id=run_id, step_id=step_id, position=position, status="completed", output=output,
        started_at=now, completed_at=now,
    )  # fmt: skip


async def test_a_lone_run_is_claimed_at_once_as_a_batch_of_one(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    run_ids = await accept(database, await new_target())
    claimed = await claim(database)
    assert claimed is not None and [row.run_id for row in claimed.rows] == run_ids


async def test_a_claim_takes_all_that_waits_in_a_lane_up_to_its_size_in_order(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    run_ids = await accept(database, await new_target(), 70)
    first, second, third = await claim(database), await claim(database), await claim(database)
    assert first is not None and [row.run_id for row in first.rows] == run_ids[:64]
    assert second is not None and [row.run_id for row in second.rows] == run_ids[64:]
    assert third is None


async def test_a_claim_stays_within_its_bytes(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    target = await new_target()
    share = batches.MAX_BYTES // (INLINE_BYTES - 100)
    await accept(database, target, share + 3, payload="x" * (INLINE_BYTES - 100))
    assert [len(claimed.rows) for _ in range(2) if (claimed := await claim(database))] == [share, 3]


async def test_what_is_too_large_to_travel_stays_in_its_row(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    await accept(database, await new_target(), 20, payload="x" * (INLINE_BYTES + 1))
    claimed = await claim(database)
    assert claimed is not None and len(claimed.rows) == 20
    assert all(row.stored and row.trigger is None for row in claimed.rows)


async def test_a_run_that_the_engine_has_failed_with_is_claimed_alone(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    run_ids = await accept(database, await new_target(), 4)
    async with database.connection() as connection:
        await connection.execute("update runs set engine_failures = 1 where id = %s", (run_ids[1],))
    claims = [[row.run_id for row in claimed.rows] for _ in range(3) if (claimed := await claim(database))]
    assert claims == [run_ids[:1], run_ids[1:2], run_ids[2:]]


async def test_a_stuck_batch_is_taken_apart_and_a_run_ends_the_third_time(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    run_ids = await accept(database, await new_target(), 2)
    for expected in ([2], [1, 1], [1, 1]):
        claims = [claimed for _ in expected if (claimed := await claim(database))]
        assert [len(claimed.rows) for claimed in claims] == expected
        async with database.connection() as connection:
            outcomes = [await batches.take_apart(connection, claimed.batch_id) for claimed in claims]
    assert outcomes == [(0, [run_id]) for run_id in run_ids]
    assert await claim(database) is None


async def test_the_account_served_longest_ago_goes_first(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    busy, quiet = await new_target(), await new_target()
    await accept(database, busy, 200)
    await accept(database, quiet, 1)
    served = [c.account_id for _ in range(3) if (c := await claim(database))]
    assert quiet.account_id in served[:2]


async def test_interactive_lanes_go_before_bulk_lanes(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    bulk, interactive = await new_target(), await new_target()
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select id from lanes where automation_id = %s and priority = %s", (bulk.automation_id, BULK)
        )
        row = await cursor.fetchone()
        assert row is not None
    await accept(database, bulk.__class__(**{**bulk.__dict__, "lane_id": row["id"]}), 1)
    await accept(database, interactive, 1)
    first = await claim(database)
    assert first is not None and first.automation_id == interactive.automation_id
    assert await claim(database, lowest_priority=2) is None


async def test_an_account_has_at_most_its_window_at_work_however_many_claim_at_once(
    database: Database, new_account: NewAccount, new_target: NewTarget, nothing_waits: None
) -> None:
    account = await new_account()
    for _ in range(6):
        await accept(database, await new_target(account_id=account), 128)
    claims = await asyncio.gather(*(claim(database) for _ in range(30)))
    while found := await claim(database):
        claims.append(found)
    assert sum(len(c.rows) for c in claims if c) == batches.ACCOUNT_WINDOW


async def test_a_run_is_claimed_by_one_batch_only(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    target = await new_target()
    run_ids = await accept(database, target, 300)
    claims = await asyncio.gather(*(claim(database) for _ in range(12)))
    while found := await claim(database):
        claims.append(found)
    claimed = [row.run_id for c in claims if c for row in c.rows]
    assert sorted(claimed) == run_ids


async def test_a_step_recorded_twice_keeps_its_first_record(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    [run_id] = await accept(database, await new_target())
    claimed = await claim(database)
    assert claimed is not None
    async with database.connection() as connection:
        await batches.record(connection, claimed.batch_id, [record(run_id, "first")])
        await batches.record(connection, claimed.batch_id, [record(run_id, "second")])
        [kept] = await batches.recorded(connection, [run_id], "a")
    assert kept.output == "first"


async def test_a_batch_that_lost_a_run_can_neither_record_nor_end_it(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    [run_id] = await accept(database, await new_target())
    old = await claim(database)
    assert old is not None
    async with database.connection() as connection:
        assert await batches.requeue(connection, old.batch_id) == 1
        new = await claim(database)
        assert new is not None and new.batch_id != old.batch_id
        assert await batches.held(connection, old.batch_id, [run_id]) == {}
        await batches.record(connection, old.batch_id, [record(run_id)])
        assert await batches.recorded(connection, [run_id], "a") == []
        assert (
            await batches.end(connection, old.batch_id, [Ending(run_id=run_id, status="completed")]) == set()
        )
        assert await batches.held(connection, new.batch_id, [run_id]) == {run_id: False}


async def test_a_run_ends_once_and_the_first_ending_stands(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    [run_id] = await accept(database, await new_target())
    claimed = await claim(database)
    assert claimed is not None
    failure = Ending(run_id=run_id, status="failed", error=StepError(code="x", message="late"))
    async with database.connection() as connection:
        done = Ending(run_id=run_id, status="completed")
        assert await batches.end(connection, claimed.batch_id, [done]) == {run_id}
        assert await batches.end(connection, claimed.batch_id, [failure]) == set()


async def test_the_output_of_a_run_is_that_of_its_last_completed_step(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    [run_id] = await accept(database, await new_target())
    claimed = await claim(database)
    assert claimed is not None
    async with database.connection() as connection:
        steps = [record(run_id, {"n": 2}, "b", 1), record(run_id, {"n": 1}, "a", 0)]
        await batches.record(connection, claimed.batch_id, steps)
        await batches.end(connection, claimed.batch_id, [Ending(run_id=run_id, status="completed")])
        cursor = await connection.execute("select output from runs where id = %s", (run_id,))
        assert await cursor.fetchone() == {"output": {"n": 2}}


async def test_a_batch_without_progress_is_probed_once_in_a_while(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    await accept(database, await new_target(), 3)
    claimed = await claim(database)
    assert claimed is not None
    async with database.connection() as connection:
        assert await batches.stale(connection) == []
        await connection.execute("update runs set progressed_at = now() - interval '31 seconds'")
        [stale] = await batches.stale(connection)
        assert stale == claimed.model_copy(update={"definition": None, "rows": []})
        assert await batches.stale(connection) == []
        again = await batches.wake(connection, claimed)
    assert again is not None and [r.run_id for r in again.rows] == [r.run_id for r in claimed.rows]


async def test_runs_that_have_done_much_and_do_not_fit_into_a_start_go_back_to_their_lane(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    """Retried runs bring the steps that they have taken over; the definition goes along with them."""
    step_ids = [f"a-step-with-a-rather-long-name-{number}" for number in range(99)]
    target = await new_target([transform(step_id, "trigger") for step_id in step_ids])
    run_ids = await accept(database, target, 64, payload="x" * 12_000)
    async with database.connection() as connection:
        await connection.execute("update runs set attempts = 1")
        await connection.execute(
            "insert into run_steps (run_id, step_id, position, status, output, attempts, credits_used,"
            " started_at, completed_at) select r.id, s.id, 0, 'completed', '1', 1, 0, now(), now()"
            " from runs r, unnest(%s::text[]) as s (id)",
            (step_ids,),
        )
    claims = [claimed for _ in range(10) if (claimed := await claim(database))]
    assert [row.run_id for claimed in claims for row in claimed.rows] == run_ids
    sizes = [len(claimed.model_dump_json(include={"rows"})) for claimed in claims]
    assert len(sizes) > 1 and max(sizes) <= 1024 * 1024


async def test_what_a_new_history_brings_goes_along_with_the_runs_that_do_not_fit(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    """Else their steps would be tried from the first attempt on."""
    target = await new_target([transform("a", "trigger")])
    run_ids = await accept(database, target, 64, payload="x" * 16_000)
    [*claims] = [claimed for _ in range(10) if (claimed := await claim(database))]
    brought = {run_id: Progress(attempts={"a": n + 1}) for n, run_id in enumerate(run_ids)}
    held = claims[0].model_copy(update={"rows": [], "definition": None, "progress": brought})
    async with database.transaction() as connection:
        await connection.execute("update runs set batch_id = %s where status = 'running'", (held.batch_id,))
        woken = await batches.wake(connection, held)
    assert woken is not None and len(woken.rows) < 64
    later = [claimed for _ in range(10) if (claimed := await claim(database))]
    rows = [row for batch in (woken, *later) for row in batch.rows]
    assert {row.run_id: row.progress for row in rows} == brought
