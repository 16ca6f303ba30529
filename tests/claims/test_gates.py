"""Gates of workflows that limit their runs: what is beyond leaves the queue, and comes back in turn."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from database import Database
from models import gates
from models.automations.run_targets import RunTarget
from models.runs import cancellation, run_work, shifts
from models.runs.claim_order import Turn
from models.runs.claim_requests import ClaimRequest
from models.runs.run_work import Claim, ClaimedRun
from models.runs.run_writes import Change, End, Wait, record_changes_if_claimed
from tests.automations.claims import claim, claimed, claims, lose, new_shift, runs_of
from tests.automations.engine import NewAccount, NewTarget, accept, until
from tests.claims.rows import limited, waiting

pytestmark = pytest.mark.usefixtures("nothing_waits")


async def held(database: Database) -> set[UUID]:
    async with database.connection() as connection:
        cursor = await connection.execute("select run_id from run_work where held")
        return {row["run_id"] for row in await cursor.fetchall()}


async def begun(database: Database, target: RunTarget) -> int:
    """Return how many runs have passed the gate, by its count."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select begun from gates where workflow_id = %s", (target.automation_id,)
        )
        row = await cursor.fetchone()
    assert row is not None
    return row["begun"]


async def end(database: Database, *runs: ClaimedRun) -> bool:
    """End runs; whether that has queued others."""
    async with database.connection() as connection:
        changes = [Change(run.claim_id, run.run_id, then=End("completed")) for run in runs]
        return (await record_changes_if_claimed(connection, changes)).queued_others


async def promote(database: Database, after: UUID = gates.NONE) -> tuple[int, UUID]:
    async with database.connection() as connection:
        return await gates.promote(connection, after)


async def test_two_workers_do_not_begin_more_than_a_workflow_allows(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 3)
    await accept(database, target, 12)

    async def begin() -> int:
        found = await claim(database, rows=2)
        return found.size if isinstance(found, Claim) else 0

    assert sum(await asyncio.gather(*(begin() for _ in range(8)))) + await begin() + await begin() == 3


async def test_runs_beyond_the_limit_leave_the_queue_until_one_ends(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 1)
    first, second, third = await accept(database, target, 3)
    runs = await claimed(database)
    assert [run.run_id for run in runs] == [first]
    assert await claim(database) is True
    assert await held(database) == {second, third}
    assert await claim(database) is False
    assert await end(database, *runs)
    assert await held(database) == {third} and await begun(database, target) == 0
    assert [run.run_id for run in await claimed(database)] == [second]


async def test_a_limit_that_is_raised_or_taken_away_lets_held_runs_begin(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 1)
    run_ids = await accept(database, target, 5)
    await claimed(database)
    await claim(database)
    assert await promote(database) == (0, gates.NONE)
    await limited(database, target, 3)
    assert await claims(database) == [run_ids[1:3]]
    await claim(database)
    assert await held(database) == set(run_ids[3:])
    await limited(database, target, None)
    assert await claims(database) == [run_ids[3:]]


async def test_a_limit_that_is_set_while_runs_are_under_way_counts_them(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    run_ids = await accept(database, target, 5)
    runs = await claimed(database, rows=3)
    await limited(database, target, 2)
    assert await begun(database, target) == 3
    assert await claim(database) is True and await held(database) == set(run_ids[3:])
    await end(database, runs[0])
    assert await claim(database) is True
    await end(database, runs[1])
    assert await claims(database) == [run_ids[3:4]]


async def test_a_limit_is_taken_away_while_a_run_ends_and_neither_waits_for_the_other(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 1)
    [run_id] = await accept(database, target)
    await claimed(database)
    async with database.transaction() as ending:
        # As an end does: its run first, and last the gate.
        await ending.execute("select from run_work where run_id = %s for update", (run_id,))
        setting = asyncio.create_task(limited(database, target, None))
        await until(lambda: waiting(database, 1))
        await ending.execute("select leave_gates_1(%s)", ([target.automation_id],))
    assert (await setting).gate == gates.NONE


async def test_the_sweep_promotes_what_nobody_has_and_counts_again(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 2)
    run_ids = await accept(database, target, 4)
    await claimed(database)
    await claim(database)
    async with database.connection() as connection:
        # As after a restore: two that had begun are gone, and the gate does not know.
        await connection.execute("delete from run_work where run_id = any(%s)", (run_ids[:2],))
    assert await promote(database) == (2, gates.NONE)
    assert await begun(database, target) == 0
    assert await claims(database) == [run_ids[2:]]


async def test_a_cancelled_run_leaves_its_place_to_the_oldest_that_is_held(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 1)
    first, second, third = await accept(database, target, 3)
    await claimed(database)
    await claim(database)
    async with database.connection() as connection:
        await cancellation.cancel(connection, target.account_id, first)
    assert await held(database) == {third} and await begun(database, target) == 0
    assert await claims(database) == [[second]]


async def test_a_held_run_can_be_cancelled(database: Database, new_target: NewTarget) -> None:
    target = await limited(database, await new_target(), 1)
    _, second = await accept(database, target, 2)
    await claimed(database)
    await claim(database)
    async with database.connection() as connection:
        assert await cancellation.cancel(connection, target.account_id, second) == [second]
    assert await held(database) == set() and await begun(database, target) == 1


async def test_an_account_at_all_its_limits_is_looked_at_once_and_then_goes_behind_the_others(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account = await new_account()
    targets = [await limited(database, await new_target(account_id=account), 1) for _ in range(6)]
    for target in targets:
        await accept(database, target, 2)
    neighbour = await new_target()
    assert sum(map(len, await claims(database))) == len(targets)
    [run_id] = await accept(database, neighbour)
    assert [run.run_id for run in await claimed(database)] == [run_id]
    await claim(database)
    assert len(await held(database)) == len(targets)
    assert await claim(database) is False


async def test_a_run_that_has_begun_goes_on_beyond_the_limit(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 1)
    first, second = await accept(database, target, 2)
    shift_id = await new_shift(database)
    await claimed(database, shift_id)
    await lose(database, shift_id)
    assert [run.run_id for run in await claimed(database)] == [first]
    await claim(database)
    assert await held(database) == {second} and await begun(database, target) == 1


async def test_a_run_that_waits_keeps_its_place(database: Database, new_target: NewTarget) -> None:
    target = await limited(database, await new_target(), 1)
    first, _ = await accept(database, target, 2)
    [run] = await claimed(database)
    async with database.connection() as connection:
        change = Change(run.claim_id, first, then=Wait(None, "{}", leaves=True))
        assert (await record_changes_if_claimed(connection, [change])).runs == {first}
    assert await claim(database) is True and await begun(database, target) == 1


async def test_claims_at_once_never_exceed_the_limit(database: Database, new_target: NewTarget) -> None:
    target = await limited(database, await new_target(), 10)
    await accept(database, target, 60)
    done = 0
    while done < 60:
        found = await asyncio.gather(*(claim(database, rows=4) for _ in range(8)))
        runs = [run for one in found if isinstance(one, Claim) for run in runs_of(one)]
        runs += [run for one in [await claim(database)] if isinstance(one, Claim) for run in runs_of(one)]
        assert await begun(database, target) == len(runs) == 10
        await asyncio.gather(*(end(database, run) for run in runs))
        assert await begun(database, target) == 0
        done += 10
    assert await claim(database) is False


async def test_what_is_queued_again_of_a_shift_that_leaves_keeps_its_place(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 2)
    first, second, _ = await accept(database, target, 3)
    shift_id = await new_shift(database)
    await claimed(database, shift_id)
    async with database.connection() as connection:
        await shifts.release(connection, shift_id)
    assert await claims(database) == [[first, second]] and await begun(database, target) == 2


async def test_a_claim_finds_what_can_be_served_behind_many_full_gates(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account_id = await new_account()
    full = [await limited(database, await new_target(account_id=account_id), 1) for _ in range(20)]
    for target in full:
        await accept(database, target)
    assert sum(map(len, await claims(database))) == len(full)
    for target in full:
        await accept(database, target)
    last = await limited(database, await new_target(account_id=account_id), 1)
    [run_id] = await accept(database, last)
    assert [run.run_id for run in await claimed(database)] == [run_id]
    assert len(await held(database)) == len(full)


async def test_all_workflows_of_an_account_with_many_limits_have_their_turn(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    """A claim looks at eight of them, and the next one goes on there."""
    account = await new_account()
    targets = [await limited(database, await new_target(account_id=account), 5) for _ in range(20)]
    for target in targets:
        await accept(database, target, 5)
    turn, served = Turn(), set[UUID]()
    for _ in range(6):
        found = await claim(database, rows=16, turn=turn)
        assert isinstance(found, Claim) and len(found.groups) <= 8
        served |= {of.automation_id for of in found.groups}
    assert served == {target.automation_id for target in targets}


async def test_a_workflow_is_served_though_others_of_its_account_have_only_what_is_set_aside(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account = await new_account()
    targets = [await limited(database, await new_target(account_id=account), 1) for _ in range(10)]
    targets.sort(key=lambda target: target.automation_id)
    aside = [run_id for target in targets[:9] for run_id in await accept(database, target)]
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set available_at = now() + interval '1 hour' where run_id = any(%s)", (aside,)
        )
    [run_id] = await accept(database, targets[9])
    turn = Turn()
    found = [one for _ in range(2) if isinstance(one := await claim(database, turn=turn), Claim)]
    assert [run.run_id for one in found for run in runs_of(one)] == [run_id]


async def test_an_account_with_more_limits_than_a_claim_looks_at_has_all_of_them_served(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account = await new_account()
    targets = [await limited(database, await new_target(account_id=account), 1) for _ in range(70)]
    run_ids = {run_id for target in targets for run_id in await accept(database, target, 2)}
    turn, served = Turn(), set[UUID]()
    for _ in range(2 * 70):
        found = await claim(database, rows=3, turn=turn)
        runs = runs_of(found) if isinstance(found, Claim) else []
        served |= {run.run_id for run in runs}
        await end(database, *runs)
        if served == run_ids:
            break
    assert served == run_ids


async def test_the_last_end_promotes_what_a_claim_holds_at_that_moment(
    database: Database, new_target: NewTarget
) -> None:
    """Nothing else of the workflow would ever end: it would wait for a sweep."""
    target = await limited(database, await new_target(), 1)
    _, second = await accept(database, target, 2)
    [run] = await claimed(database)
    shift_id = await new_shift(database)
    async with database.transaction() as claiming:
        assert await run_work.claim(claiming, shift_id, ClaimRequest()) is True
        ending = asyncio.create_task(end(database, run))
        await until(lambda: waiting(database, 1))
    assert await ending
    assert await held(database) == set() and [one.run_id for one in await claimed(database)] == [second]


async def test_a_claim_beside_the_last_end_leaves_what_it_cannot_take_in_its_queue(
    database: Database, new_target: NewTarget
) -> None:
    target = await limited(database, await new_target(), 1)
    _, second = await accept(database, target, 2)
    await claimed(database)
    async with database.transaction() as ending:
        await ending.execute("select leave_gates_1(%s)", ([target.automation_id],))
        assert await claim(database) is True and await held(database) == set()
    assert [run.run_id for run in await claimed(database)] == [second]
