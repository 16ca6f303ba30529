"""Claiming: what is served when, whose turn it is, and what holds however many claim at once."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from database import Database
from language.records import INLINE_BYTES
from models.audit import Actor
from models.automations.run_targets import RunTarget
from models.priorities import ALONE, BULK, WAITED
from models.runs import cancellation, low_water, retries, run_work, runs, setbacks, shifts
from models.runs.claim_order import KEPT, Turn
from models.runs.claim_requests import ACCOUNT_WINDOW
from models.runs.low_water import LowWater
from models.runs.retries import RetryRequest
from models.runs.run_work import Claim
from tests.automations.claims import (
    claim,
    claimed,
    claims,
    held,
    lose,
    new_shift,
    record,
    record_of,
    runs_of,
)
from tests.automations.engine import NewAccount, NewTarget, accept

pytestmark = pytest.mark.usefixtures("nothing_waits")


async def change(database: Database, run_ids: list[UUID], values: str) -> None:
    async with database.connection() as connection:
        await connection.execute(f"update run_work set {values} where run_id = any(%s)", (run_ids,))


async def accounts_of(found: Claim | bool) -> Counter[UUID]:
    """Return how many runs of each account a claim has."""
    assert isinstance(found, Claim)
    sizes: Counter[UUID] = Counter()
    for of, some in found.groups.items():
        sizes[of.account_id] += len(some)
    return sizes


def bulk(target: RunTarget) -> RunTarget:
    return replace(target, priority=BULK)


# How much


async def test_a_lone_run_is_claimed_at_once(database: Database, new_target: NewTarget) -> None:
    run_ids = await accept(database, await new_target())
    assert [run.run_id for run in await claimed(database)] == run_ids


async def test_a_claim_takes_all_that_waits_up_to_its_size_in_order(
    database: Database, new_target: NewTarget
) -> None:
    run_ids = await accept(database, await new_target(), 300)
    assert await claims(database) == [run_ids[:256], run_ids[256:]]


async def test_a_claim_takes_runs_of_many_workflows_and_accounts_together(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account = await new_account()
    targets = [await new_target(account_id=account) for _ in range(3)] + [await new_target()]
    run_ids = [run_id for target in targets for run_id in await accept(database, target, 2)]
    found = await claim(database)
    assert isinstance(found, Claim) and len(found.groups) == 4
    assert [run.run_id for run in runs_of(found)] == sorted(run_ids)
    assert found.begun == {target.automation_id: 2 for target in targets} and not found.more


async def test_a_claim_stays_within_its_bytes(database: Database, new_target: NewTarget) -> None:
    share = run_work.MAX_BYTES // INLINE_BYTES
    await accept(database, await new_target(), share + 3, payload="x" * (INLINE_BYTES - 2))
    assert [len(runs) for runs in await claims(database)] == [share, 3]


async def test_what_is_larger_than_any_claim_is_claimed_by_itself(
    database: Database, new_target: NewTarget
) -> None:
    run_ids = await accept(database, await new_target(), 2)
    await change(database, run_ids, f"bytes = {2 * run_work.MAX_BYTES}")
    assert await claims(database) == [run_ids[:1], run_ids[1:]]


async def test_a_claim_of_few_runs_finds_an_account_behind_many_that_have_no_room(
    database: Database, new_target: NewTarget
) -> None:
    """It looks at few accounts at a time, and goes on while it finds nothing."""
    targets = sorted([await new_target() for _ in range(40)], key=lambda target: target.account_id)
    for target in targets:
        await accept(database, target)
    full = dict.fromkeys((target.account_id for target in targets[:-1]), ACCOUNT_WINDOW)
    found = await claim(database, rows=1, at_work=full)
    assert await accounts_of(found) == {targets[-1].account_id: 1}


async def test_what_is_too_large_to_travel_stays_in_its_row(
    database: Database, new_target: NewTarget
) -> None:
    await accept(database, await new_target(), 20, payload="x" * INLINE_BYTES)
    runs = await claimed(database)
    assert len(runs) == 20 and all(run.trigger is None and run.size > INLINE_BYTES for run in runs)


# What was lost


async def test_runs_whose_workers_are_lost_go_on_together_once_and_then_alone(
    database: Database, new_target: NewTarget
) -> None:
    run_ids = await accept(database, await new_target(), 2)
    for _ in range(2):
        shift_id = await new_shift(database)
        assert [run.run_id for run in await claimed(database, shift_id)] == run_ids
        assert await lose(database, shift_id) == 2
    async with database.connection() as connection:
        assert await run_work.waits_alone(connection)
    assert await claim(database) is False
    assert await claims(database, alone=True, rows=1) == [run_ids[:1], run_ids[1:]]


async def test_a_run_that_waits_for_a_workflow_and_was_lost_twice_is_claimed_alone(
    database: Database, new_target: NewTarget
) -> None:
    """A shift is to have it then: in a workflow it would be beside others."""
    await accept(database, await new_target(execution="workflow"))
    for _ in range(2):
        shift_id = await new_shift(database)
        await claimed(database, shift_id, own=True)
        assert await lose(database, shift_id) == 1
    assert await claim(database, own=True) is False
    assert len(await claimed(database, alone=True)) == 1


async def test_the_retry_of_a_run_that_needs_its_own_workflow_needs_one_too(
    database: Database, new_target: NewTarget
) -> None:
    """A shift that claims it has to queue it again, and counts it as begun."""
    target = await new_target(execution="workflow")
    [run_id] = await accept(database, target)
    async with database.transaction() as connection:
        await cancellation.cancel(connection, target.account_id, run_id)
        actor = Actor(target.account_id, "system", name="test")
        await retries.retry(connection, actor, RetryRequest(run_id), may_look_up=True)
    assert await claim(database) is False
    assert len(await claimed(database, own=True)) == 1


async def test_a_run_that_was_lost_alone_stays_so_and_goes_on_among_others_once_it_has_written(
    database: Database, new_target: NewTarget
) -> None:
    [run_id] = await accept(database, await new_target())
    await change(database, [run_id], f"lost = 2, priority = priority + {ALONE}")
    shift_id = await new_shift(database)
    await claimed(database, shift_id, alone=True)
    await lose(database, shift_id)
    shift_id = await new_shift(database)
    # Not at once again.
    assert await claim(database, shift_id, alone=True) is True
    await change(database, [run_id], "available_at = now()")
    [run] = await claimed(database, shift_id, alone=True)
    async with database.connection() as connection:
        assert await record(connection, run.claim_id, record_of(run_id)) == {run_id}
    await lose(database, shift_id)
    assert await claims(database) == [[run_id]]


async def test_a_run_shows_how_often_a_worker_was_lost_with_it(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept(database, target, 1)
    async with database.connection() as connection:
        assert (await runs.get(connection, target.account_id, run_id)).takeovers is None
        last_at = None
        for count in (1, 2, 3):
            shift_id = await new_shift(database)
            await claimed(database, shift_id, alone=count == 3)
            await lose(database, shift_id)
            takeovers = (await runs.get(connection, target.account_id, run_id)).takeovers
            assert takeovers is not None and takeovers.count == count
            assert last_at is None or takeovers.last_at >= last_at
            last_at = takeovers.last_at


async def test_a_run_that_its_worker_lets_go_of_was_not_taken_over(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    await accept(database, target, 1)
    run = await held(database)
    async with database.connection() as connection:
        assert await shifts.release(connection, run.shift_id) == 1
        assert (await runs.get(connection, target.account_id, run.run_id)).takeovers is None
    [again] = await claimed(database)
    assert again.run_id == run.run_id and again.recorded


# In which order


async def test_what_has_begun_goes_before_what_has_not(database: Database, new_target: NewTarget) -> None:
    run_ids = await accept(database, await new_target(), 3)
    await change(database, run_ids[1:], "begun = true, available_at = clock_timestamp()")
    assert await claims(database, rows=2) == [run_ids[1:], run_ids[:1]]


async def test_each_account_gets_its_share_of_a_claim_and_who_has_more_what_is_left(
    database: Database, new_target: NewTarget
) -> None:
    busy, quiet, small = [await new_target() for _ in range(3)]
    for target, count in ((busy, 100), (quiet, 20), (small, 2)):
        await accept(database, target, count)
    found = await accounts_of(await claim(database, rows=30))
    assert found[small.account_id] == 2 and found[quiet.account_id] >= 10 and found.total() == 30


async def test_claims_that_take_less_than_accounts_wait_serve_one_account_after_the_other(
    database: Database, new_target: NewTarget
) -> None:
    """As of a worker whose places come free one by one."""
    targets = [await new_target() for _ in range(7)]
    for target in targets:
        await accept(database, target, 10)
    served: Counter[UUID] = Counter()
    turn = Turn()
    for _ in range(7):
        found = await claim(database, rows=3, turn=turn)
        assert isinstance(found, Claim)
        served += await accounts_of(found)
    assert served == {target.account_id: 3 for target in targets}


async def test_an_account_whose_turn_is_after_many_that_may_not_be_served_gets_it(
    database: Database, new_target: NewTarget
) -> None:
    """Of so many accounts that a claim does not look at all of them."""
    later = [run_id for _ in range(70) for run_id in await accept(database, await new_target())]
    await change(database, later, "available_at = now() + interval '1 hour'")
    target = await new_target()
    await accept(database, target)
    turn = Turn({target.priority: target.account_id})
    assert await claim(database, turn=turn) is True
    assert await accounts_of(await claim(database, turn=turn)) == {target.account_id: 1}


async def test_what_somebody_waits_for_goes_before_what_was_started_and_that_before_bulk(
    database: Database, new_target: NewTarget
) -> None:
    targets = [await new_target() for _ in range(3)]
    ranked = [bulk(targets[0]), targets[1], replace(targets[2], priority=WAITED)]
    expected = [[await accept(database, target)] for target in ranked]
    assert await claims(database, rows=1) == [one for [one] in reversed(expected)]


async def test_a_claim_can_begin_with_an_account_and_leaves_the_turn_of_the_others(
    database: Database, new_target: NewTarget
) -> None:
    targets = sorted([await new_target() for _ in range(4)], key=lambda target: target.account_id)
    for target in targets:
        await accept(database, target)
    turn, newcomer = Turn(), targets[2].account_id
    assert await accounts_of(await claim(database, rows=1, turn=turn.beginning_with(newcomer))) == {
        newcomer: 1
    }
    assert turn == Turn()


async def test_a_claim_can_begin_at_the_last_priority(database: Database, new_target: NewTarget) -> None:
    later, sooner = bulk(await new_target()), await new_target()
    [run_id] = await accept(database, later)
    await accept(database, sooner, 2)
    assert [run.run_id for run in await claimed(database, rows=1, first=BULK)] == [run_id]


async def test_the_last_tenth_of_the_room_is_for_who_waits_for_an_answer(
    database: Database, new_target: NewTarget
) -> None:
    later, sooner = await new_target(), replace(await new_target(), priority=WAITED)
    await accept(database, later, 3)
    assert await claim(database, room=KEPT) is False
    [run_id] = await accept(database, sooner)
    assert [run.run_id for run in await claimed(database, room=KEPT)] == [run_id]
    assert len(await claimed(database, room=KEPT + 2)) == 2


# Places


async def test_an_account_has_at_most_its_window_at_work(
    database: Database, new_account: NewAccount, new_target: NewTarget
) -> None:
    account = await new_account()
    for _ in range(6):
        await accept(database, await new_target(account_id=account), 128)
    shift_id, at_work = await new_shift(database), 0
    while isinstance(found := await claim(database, shift_id, at_work={account: at_work}), Claim):
        at_work += found.size
    assert (at_work, found) == (ACCOUNT_WINDOW, True)


async def test_an_account_has_a_quarter_of_its_window_while_others_wait(
    database: Database, new_target: NewTarget
) -> None:
    busy, quiet = await new_target(), await new_target()
    await accept(database, busy, 256)
    await accept(database, quiet)
    found = await claim(database)
    assert await accounts_of(found) == {busy.account_id: ACCOUNT_WINDOW // 4, quiet.account_id: 1}
    assert isinstance(found, Claim) and found.more
    at_work = {busy.account_id: ACCOUNT_WINDOW // 4}
    assert (await accounts_of(await claim(database, at_work=at_work))).total() == 256 - ACCOUNT_WINDOW // 4


async def test_an_account_never_has_more_at_work_than_is_free(
    database: Database, new_target: NewTarget
) -> None:
    busy, quiet = await new_target(), await new_target()
    await accept(database, busy, 10)
    assert await claim(database, room=200, at_work={busy.account_id: 200}) is True
    [run_id] = await accept(database, quiet)
    found = await claimed(database, room=200, at_work={busy.account_id: 200})
    assert [run.run_id for run in found] == [run_id]


async def test_runs_that_only_wait_are_not_claimed(database: Database, new_target: NewTarget) -> None:
    run_ids = await accept(database, await new_target(), 2)
    await change(database, run_ids[:1], "status = 'waiting', wake_at = now() + interval '1 day'")
    assert await claims(database) == [run_ids[1:]]
    async with database.connection() as connection:
        assert await run_work.wake_due(connection) == (0, 0)
        await change(database, run_ids[:1], "wake_at = now()")
        assert await run_work.wake_due(connection) == (1, 0)
    assert await claims(database) == [run_ids[:1]]


async def test_a_run_is_claimed_once_however_many_claim_at_once(
    database: Database, new_target: NewTarget
) -> None:
    targets = [await new_target() for _ in range(3)]
    run_ids = [run_id for target in targets for run_id in await accept(database, target, 100)]
    found = await asyncio.gather(*(claim(database, rows=64) for _ in range(12)))
    at_once = [run.run_id for one in found if isinstance(one, Claim) for run in runs_of(one)]
    after = [run_id for runs in await claims(database) for run_id in runs]
    assert sorted(at_once + after) == sorted(run_ids)


# Versions that our code cannot read


async def aside(database: Database, target: RunTarget, *held: run_work.ClaimedRun) -> None:
    async with database.connection() as connection:
        await setbacks.set_version_aside(
            connection,
            target.automation_id,
            target.version,
            {run.run_id: run.claim_id for run in held},
            "build",
        )


async def seconds_until_tried(database: Database, run_id: UUID) -> float:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select extract(epoch from available_at - now())::float as seconds from run_work"
            " where run_id = %s",
            (run_id,),
        )
        row = await cursor.fetchone()
    assert row is not None
    return row["seconds"]


async def test_runs_of_a_version_that_is_set_aside_are_passed_over_for_longer_and_longer(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept(database, target)
    for minutes in (1, 2, 4):
        await aside(database, target, *(await claimed(database)))
        assert 60 * (minutes - 1) < await seconds_until_tried(database, run_id) <= 60 * minutes
        assert await claim(database) is True
        # What comes meanwhile follows them.
        [another] = await accept(database, target)
        await aside(database, target, *(await claimed(database)))
        assert 60 * (minutes - 1) < await seconds_until_tried(database, another) <= 60 * minutes
        async with database.connection() as connection:
            await connection.execute("delete from run_work where run_id = %s", (another,))
            await connection.execute("update run_work set available_at = now()")
            await connection.execute("update versions_aside set aside_until = now()")
    async with database.connection() as connection:
        await setbacks.take_version_back(connection, target.automation_id, target.version)
        assert await setbacks.count_aside(connection) == 0
    assert await claims(database) == [[run_id]]


async def test_what_another_has_claimed_meanwhile_is_not_set_aside(
    database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    [run_id] = await accept(database, target)
    shift_id = await new_shift(database)
    [mine] = await claimed(database, shift_id)
    await lose(database, shift_id)
    [theirs] = await claimed(database)
    await aside(database, target, mine)
    async with database.connection() as connection:
        assert await record(connection, theirs.claim_id, record_of(run_id)) == {run_id}


# Low-water marks


async def test_a_mark_hides_no_run_that_is_queued_again(database: Database, new_target: NewTarget) -> None:
    """Those that have begun have a mark of their own: they come back with the time at which they do."""
    marks = LowWater()
    marks.note_read(10_000, 1)
    run_ids = await accept(database, await new_target(), 2)
    for _ in range(3):
        shift_id = await new_shift(database)
        found = await claim(database, shift_id, marks=marks.marks())
        assert isinstance(found, Claim) and [run.run_id for run in runs_of(found)] == run_ids
        marks.note(found)
        async with database.connection() as connection:
            await shifts.release(connection, shift_id)


async def test_a_claim_with_a_mark_reads_no_row_that_was_claimed_before_it(
    database: Database, new_target: NewTarget
) -> None:
    """Though a snapshot sees them still, so that they stay in the index."""
    target, marks = await new_target(), LowWater()
    marks.note_read(10_000, 1)
    old = await database.connect_dedicated()
    async with old:
        await old.execute("begin isolation level repeatable read")
        await old.execute("select count(*) from run_work")
        await accept(database, target, 256)
        found = await claim(database)
        assert isinstance(found, Claim)
        marks.note(replace(found, queues={q: _later(f) for q, f in found.queues.items()}))
        await accept(database, target)
        assert await claim(database, marks=marks.marks()) is False
        await old.execute("commit")
    assert isinstance(await claim(database), Claim)


async def test_marks_are_used_while_claims_without_them_read_dead_rows(
    database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept by an old snapshot; without one, marks would only cost."""
    monkeypatch.setattr(low_water, "_MANY_READ", 400)
    target, marks, read = await new_target(), LowWater(), list[int]()

    async def claim_one() -> None:
        """Accept a run and claim it, as a worker does."""
        await accept(database, target)

        def note(rows: int, runs: int) -> None:
            read.append(rows)
            marks.note_read(rows, runs)

        found = await claim(database, marks=marks.marks(), on_read=note)
        assert isinstance(found, Claim) and found.size == 1
        marks.note(replace(found, queues={q: _later(f) for q, f in found.queues.items()}))

    await claim_one()
    assert read[-1] < 100 and not marks.marks()
    old = await database.connect_dedicated()
    async with old:
        await old.execute("begin isolation level repeatable read")
        await old.execute("select count(*) from run_work")
        for _ in range(2):
            await accept(database, target, 256)
            assert isinstance(await claim(database), Claim)
        await claim_one()
        assert read[-1] > 512 and marks.marks()
        await old.execute("commit")


async def test_the_mark_of_a_queue_hides_no_older_run_of_another(
    database: Database, new_target: NewTarget
) -> None:
    """Of another account, priority or gate: each queue has a mark of its own."""
    target, marks = await new_target(), LowWater()
    marks.note_read(10_000, 1)
    others = [await new_target(), await new_target(account_id=target.account_id, concurrency={"limit": 1})]
    [low] = await accept(database, target)
    await change(database, [low], f"priority = {BULK}")
    older = [low, *[(await accept(database, other))[0] for other in others]]
    await change(database, older, "available_at = now() + interval '1 hour'")
    await accept(database, target)
    found = await claim(database)
    assert isinstance(found, Claim) and found.size == 1
    marks.note(replace(found, queues={q: _later(f) for q, f in found.queues.items()}))
    await change(database, older, "available_at = now()")
    again = await claim(database, marks=marks.marks())
    assert isinstance(again, Claim)
    assert sorted(run.run_id for run in runs_of(again)) == sorted(older)


def _later(found: run_work.QueueShare) -> run_work.QueueShare:
    """As if it had been claimed a minute later."""
    assert found.last_new is not None
    return replace(found, last_new=found.last_new + timedelta(minutes=1))
