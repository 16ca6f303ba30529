"""Claiming: what Postgres guarantees however many processes take part. Leases are in tests/leases."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from database import Database
from language.records import INLINE_BYTES
from models import leases, recovery, run_loading, run_work, runs
from models.identifiers import new_id
from models.lanes import BULK
from models.leases import SILENT_SECONDS
from models.run_work import Claim
from tests.automations.claims import claim, claimed, claims, make_silent
from tests.automations.engine import NewAccount, NewTarget, accept

pytestmark = pytest.mark.usefixtures("nothing_waits")


async def change(database: Database, run_ids: list[UUID], values: str) -> None:
    async with database.connection() as connection:
        await connection.execute(f"update run_work set {values} where run_id = any(%s)", (run_ids,))


async def test_a_lone_run_is_claimed_at_once_as_a_batch_of_one(
    database: Database, new_target: NewTarget
) -> None:
    run_ids = await accept(database, await new_target())
    assert [run.run_id for run in (await claimed(database)).runs] == run_ids


async def test_a_claim_takes_all_that_waits_in_a_lane_up_to_its_size_in_order(
    database: Database, new_target: NewTarget
) -> None:
    run_ids = await accept(database, await new_target(), 300)
    assert await claims(database) == [run_ids[:256], run_ids[256:]]


async def test_a_claim_stays_within_its_bytes(database: Database, new_target: NewTarget) -> None:
    share = run_work.MAX_BYTES // INLINE_BYTES
    await accept(database, await new_target(), share + 3, payload="x" * (INLINE_BYTES - 2))
    assert [len(runs) for runs in await claims(database)] == [share, 3]


async def test_what_is_too_large_to_travel_stays_in_its_row(
    database: Database, new_target: NewTarget
) -> None:
    await accept(database, await new_target(), 20, payload="x" * INLINE_BYTES)
    runs = (await claimed(database)).runs
    assert len(runs) == 20 and all(run.trigger is None and run.size > INLINE_BYTES for run in runs)


async def test_of_a_batch_that_is_taken_over_no_more_is_loaded_than_of_a_claim(
    database: Database, new_target: NewTarget
) -> None:
    share = run_work.MAX_BYTES // INLINE_BYTES
    run_ids = await accept(database, await new_target(), share + 3, payload="x" * (INLINE_BYTES - 2))
    batch_id = (await claimed(database)).lease.batch_id
    await change(database, run_ids, f"status = 'running', batch_id = '{batch_id}'")
    async with database.connection() as connection:
        runs = await run_loading.load_runs(connection, batch_id)
    assert [run.run_id for run in runs] == run_ids
    assert [run.unloaded for run in runs] == [run.trigger is None for run in runs]
    assert sum(not run.unloaded for run in runs) == share


async def test_a_run_that_was_lost_with_its_worker_twice_is_claimed_alone(
    database: Database, new_target: NewTarget
) -> None:
    run_ids = await accept(database, await new_target(), 4)
    await change(database, run_ids[1:2], "lost = 2")
    assert await claims(database) == [run_ids[:1], run_ids[1:2], run_ids[2:]]


async def test_runs_whose_workers_are_lost_go_on_together_once_and_then_alone(
    database: Database, new_target: NewTarget
) -> None:
    run_ids = await accept(database, await new_target(), 2)
    batch_id = (await claimed(database)).lease.batch_id
    for expected in (0, 2):
        await make_silent(database, batch_id)
        async with database.connection() as connection:
            taken = await leases.take_over(connection, batch_id, new_id())
            assert taken is not None and taken.was_lost
            assert await recovery.count_lost(connection, taken.lease) == expected
    assert await claims(database) == [run_ids[:1], run_ids[1:]]


async def test_a_run_shows_how_often_a_worker_was_lost_with_it(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept(database, target, 1)
    async with database.connection() as connection:
        assert (await runs.get(connection, target.account_id, run_id)).takeovers is None
        batch_id = (await claimed(database)).lease.batch_id
        for count in (1, 2):
            await make_silent(database, batch_id)
            taken = await leases.take_over(connection, batch_id, new_id())
            assert taken is not None
            await recovery.count_lost(connection, taken.lease)
            takeovers = (await runs.get(connection, target.account_id, run_id)).takeovers
            assert takeovers is not None and takeovers.count == count
        await make_silent(database, batch_id)
        assert await recovery.give_back(connection, batch_id) == 1
        again = (await runs.get(connection, target.account_id, run_id)).takeovers
        assert again is not None and again.count == 3 and again.last_at >= takeovers.last_at


async def test_a_run_that_its_worker_lets_go_of_was_not_taken_over(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept(database, target, 1)
    batch_id = (await claimed(database)).lease.batch_id
    async with database.connection() as connection:
        await connection.execute("update batches set executor = null where id = %s", (batch_id,))
        assert await recovery.give_back(connection, batch_id) == 1
        assert (await runs.get(connection, target.account_id, run_id)).takeovers is None


async def test_what_has_begun_goes_before_what_has_not(database: Database, new_target: NewTarget) -> None:
    run_ids = await accept(database, await new_target(), 3)
    await change(database, run_ids[1:], "begun = true, available_at = clock_timestamp()")
    assert await claims(database, rows=2) == [run_ids[1:], run_ids[:1]]


async def test_the_account_served_longest_ago_goes_first(database: Database, new_target: NewTarget) -> None:
    busy, quiet = await new_target(), await new_target()
    await accept(database, busy, 200)
    await accept(database, quiet, 1)
    served = [(await claimed(database, rows=64)).account_id for _ in range(3)]
    assert quiet.account_id in served[:2]


async def lane_of(database: Database, automation_id: UUID, priority: int) -> int:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select id from lanes where automation_id = %s and priority = %s", (automation_id, priority)
        )
        row = await cursor.fetchone()
    assert row is not None
    return row["id"]


async def test_interactive_lanes_go_before_bulk_lanes(database: Database, new_target: NewTarget) -> None:
    bulk, interactive = await new_target(), await new_target()
    lane_id = await lane_of(database, bulk.automation_id, BULK)
    await accept(database, replace(bulk, lane_id=lane_id))
    await accept(database, interactive)
    assert (await claimed(database)).automation_id == interactive.automation_id


async def test_one_claim_in_some_ignores_priorities(database: Database, new_target: NewTarget) -> None:
    bulk, interactive = await new_target(), await new_target()
    lane_id = await lane_of(database, bulk.automation_id, BULK)
    await accept(database, replace(bulk, lane_id=lane_id))
    await accept(database, interactive, 2)
    await claimed(database, rows=1)
    assert (await claimed(database, any_priority=True)).automation_id == bulk.automation_id


async def test_the_last_tenth_of_the_room_is_for_who_waits_for_an_answer(
    database: Database, new_target: NewTarget
) -> None:
    bulk, busy, interactive = [await new_target() for _ in range(3)]
    await accept(database, busy, 19)
    await claimed(database)
    lane_id = await lane_of(database, bulk.automation_id, BULK)
    await accept(database, replace(bulk, lane_id=lane_id))
    assert await claim(database, window=20) is True
    await accept(database, interactive)
    assert (await claimed(database, window=20)).automation_id == interactive.automation_id


async def test_a_lane_that_is_set_aside_is_passed_over(database: Database, new_target: NewTarget) -> None:
    target = await new_target()
    await accept(database, target)
    async with database.connection() as connection:
        await connection.execute(
            "update lanes set aside_until = now() + interval '1 minute' where id = %s", (target.lane_id,)
        )
        assert await claim(database) is True
        await connection.execute("update lanes set aside_until = now() where id = %s", (target.lane_id,))
    await claimed(database)


async def test_an_account_has_at_most_its_window_at_work_however_many_claim_at_once(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account = await new_account()
    for _ in range(6):
        await accept(database, await new_target(account_id=account), 128)
    found = await asyncio.gather(*(claim(database) for _ in range(30)))
    at_once = sum(len(one.runs) for one in found if isinstance(one, Claim))
    after = sum(len(runs) for runs in await claims(database))
    assert at_once + after == run_work.ACCOUNT_WINDOW


async def test_runs_that_only_wait_hold_no_place(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account = await new_account()
    first, second = [await new_target(account_id=account) for _ in range(2)]
    run_ids = await accept(database, first, 3)
    await claimed(database, account_window=3)
    await accept(database, second)
    assert await claim(database, account_window=3) is True
    await change(database, run_ids[:1], "status = 'waiting', wake_at = now() + interval '1 day'")
    await claimed(database, account_window=3)


async def test_a_run_is_claimed_by_one_batch_only(database: Database, new_target: NewTarget) -> None:
    run_ids = await accept(database, await new_target(), 300)
    found = await asyncio.gather(*(claim(database, rows=64) for _ in range(12)))
    at_once = [run.run_id for one in found if isinstance(one, Claim) for run in one.runs]
    after = [run_id for runs in await claims(database) for run_id in runs]
    assert sorted(at_once + after) == run_ids


async def test_a_silent_batch_is_found_once_in_a_while(database: Database, new_target: NewTarget) -> None:
    await accept(database, await new_target(), 3)
    found = await claimed(database)
    async with database.connection() as connection:
        await recovery.mark_started(connection, found.lease.batch_id)
        await connection.execute("update batches set probed_at = '-infinity'")
        assert await recovery.find_unseen(connection) == []
        await connection.execute(
            "update batches set beat_at = now() - make_interval(secs => %s)", (SILENT_SECONDS + 3,)
        )
        [unseen] = await recovery.find_unseen(connection)
        assert (unseen.batch_id, unseen.runs, unseen.trigger) == (found.lease.batch_id, 3, "manual")
        assert await recovery.find_unseen(connection) == []
