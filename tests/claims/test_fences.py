"""One carrier at a time: beats, shifts that are ended, and writes that are fenced by the claim."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from database import Database
from language.records import StepError
from models.identifiers import new_id
from models.runs import shifts
from models.runs.run_writes import Change, End, Wait, WriteResult, record_changes_if_claimed
from models.runs.shifts import ObservedShifts, ShiftChanges
from tests.automations.claims import claim, claimed, lose, new_shift
from tests.claims.conftest import NewRuns
from tests.claims.rows import NOW, record


async def try_to_write(database: Database, *changes: Change) -> WriteResult:
    async with database.connection() as connection:
        return await record_changes_if_claimed(connection, changes)


async def write(database: Database, *changes: Change) -> set[UUID]:
    return (await try_to_write(database, *changes)).runs


async def row(database: Database, query: str, *values: Any) -> Any:
    async with database.connection() as connection:
        return await (await connection.execute(query, values)).fetchone()  # pyright: ignore[reportArgumentType]


async def beat(database: Database, shift_id: UUID, claims: dict[UUID, UUID]) -> ShiftChanges | None:
    async with database.connection() as connection:
        return await shifts.beat(connection, shift_id, 0, claims)


# Shifts


async def test_a_run_that_was_claimed_is_nobody_elses(database: Database, new_runs: NewRuns) -> None:
    await new_runs([{}])
    assert await claim(database) is False


async def test_a_shift_that_was_ended_loses_its_runs(database: Database, new_runs: NewRuns) -> None:
    first = await new_runs([{}])
    run_id, claim_id = first.only
    assert await lose(database, first.shift_id) == 1
    [again] = await claimed(database)
    assert again.run_id == run_id and again.claim_id != claim_id
    assert await write(database, Change(claim_id, run_id, [record(run_id, "late")])) == set()
    assert await beat(database, first.shift_id, first.claims) is None


async def test_a_beat_tells_which_runs_are_gone_and_which_were_woken(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([{}] * 5)
    _, ended, overtaken, woken, both = carried.run_ids
    await write(database, Change(carried.claims[ended], ended, then=End("completed")))
    async with database.connection() as connection:
        await connection.execute("select wake_runs_2(%s)", ([woken, both],))
        await connection.execute(
            "update run_work set claim_id = gen_random_uuid() where run_id = any(%s)", ([overtaken, both],)
        )
    news = await beat(database, carried.shift_id, carried.claims)
    assert news is not None and (news.gone, news.woken) == ({ended, overtaken, both}, {woken})


async def test_a_shift_is_ended_only_with_the_beats_that_were_seen(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([{}])
    news = await beat(database, carried.shift_id, carried.claims)
    assert news is not None and (news.gone, news.woken) == (set(), set())
    async with database.connection() as connection:
        assert await shifts.end(connection, carried.shift_id, 0) is None
        assert await shifts.end(connection, carried.shift_id, 1) == 1
        assert await shifts.end(connection, carried.shift_id, 1) is None


async def test_an_unknown_shift_is_over(database: Database) -> None:
    assert await beat(database, new_id(), {}) is None


async def test_a_shift_is_silent_when_its_count_stood_still_for_long_by_ones_own_clock(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift_id, others, now = await new_shift(database), ObservedShifts(), 1000.0
    monkeypatch.setattr(time, "clock_gettime", lambda _: now)

    async def find(seconds: float) -> bool:
        nonlocal now
        now += seconds
        async with database.connection() as connection:
            # Whatever the clock of the database says.
            await connection.execute("update shifts set beat_at = '-infinity'")
            return shift_id in dict(await others.find_silent(connection))

    half = shifts.SILENT_SECONDS / 2
    assert [await find(seconds) for seconds in (0, half, half - 1)] == [False, False, False]
    await beat(database, shift_id, {})
    assert [await find(seconds) for seconds in (1, half, half - 1, 1)] == [False, False, False, True]
    # Who could not look for a while counts from now: the others could not beat either.
    assert [await find(seconds) for seconds in (half + 1, half, half)] == [False, False, True]


async def test_who_leaves_queues_what_is_left_and_nothing_of_it_counts_as_lost(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([{}, {}])
    async with database.connection() as connection:
        assert await shifts.release(connection, carried.shift_id) == 2
        cursor = await connection.execute(
            "select distinct status, carrier, claim_id, lost from run_work where run_id = any(%s)",
            (carried.run_ids,),
        )
        assert await cursor.fetchall() == [{"status": "queued", "carrier": None, "claim_id": None, "lost": 0}]


async def test_only_what_is_ones_own_still_can_be_given_back(database: Database, new_runs: NewRuns) -> None:
    carried = await new_runs([{}, {}])
    mine, theirs = carried.run_ids
    async with database.connection() as connection:
        assert await shifts.requeue_runs(connection, {mine: carried.claims[mine], theirs: new_id()}) == 1
    assert [run.run_id for run in await claimed(database)] == [mine]


# Writes


async def test_steps_and_items_are_written_once(database: Database, new_runs: NewRuns) -> None:
    run_id, claim_id = (await new_runs([{}])).only
    records = [
        record(run_id, "each", 1, item=0),
        record(run_id, "each", 2, item=1),
        record(run_id, "call", "a\0b"),
    ]
    for _ in range(2):
        assert await write(database, Change(claim_id, run_id, records)) == {run_id}
    await write(database, Change(claim_id, run_id, [record(run_id, "call", "another")]))
    assert (await row(database, "select output from run_steps where run_id = %s", run_id))["output"] == "a\0b"
    found = await row(
        database, "select json_agg(output order by item) as o from run_step_items where run_id = %s", run_id
    )
    assert found["o"] == [1, 2]


async def test_an_ended_run_names_its_output_and_is_work_no_longer(
    database: Database, new_runs: NewRuns
) -> None:
    run_id, claim_id = (await new_runs([{}])).only
    change = Change(claim_id, run_id, [record(run_id, "call", {"n": 1})], End("completed", output_of="call"))
    assert await write(database, change) == {run_id}
    run = await row(database, "select status, output_of, completed_at from runs where id = %s", run_id)
    assert (run["status"], run["output_of"]) == ("completed", "call")
    assert run["completed_at"] is not None
    assert await row(database, "select 1 from run_work where run_id = %s", run_id) is None


WORK = "select status, carrier, claim_id, wake_at, woken, progress from run_work where run_id = %s"


async def test_a_run_that_waits_beside_its_work_stays_with_its_carrier(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([{}])
    run_id, claim_id = carried.only
    await write(database, Change(claim_id, run_id, [], Wait(NOW, "{}", leaves=False)))
    assert await row(database, WORK, run_id) == {
        "status": "running", "carrier": carried.shift_id, "claim_id": claim_id, "wake_at": NOW,
        "woken": False, "progress": {},
    }  # fmt: skip
    assert await write(database, Change(claim_id, run_id, [record(run_id, "call")])) == {run_id}


async def test_a_failed_run_keeps_its_error(database: Database, new_runs: NewRuns) -> None:
    run_id, claim_id = (await new_runs([{}])).only
    error = StepError(code="http_status", message="404", step="call")
    await write(database, Change(claim_id, run_id, [], End("failed", error)))
    run = await row(database, "select status, error from runs where id = %s", run_id)
    assert run == {"status": "failed", "error": error.model_dump(exclude_none=True)}


async def test_what_has_ended_is_written_no_more(database: Database, new_runs: NewRuns) -> None:
    run_id, claim_id = (await new_runs([{}])).only
    await write(database, Change(claim_id, run_id, [], End("cancelled")))
    assert (
        await write(database, Change(claim_id, run_id, [record(run_id, "late")], End("completed"))) == set()
    )
    assert await row(database, "select 1 from run_steps where run_id = %s", run_id) is None
    assert (await row(database, "select status from runs where id = %s", run_id))["status"] == "cancelled"


async def test_a_waiting_run_is_nobodys_and_is_not_written(database: Database, new_runs: NewRuns) -> None:
    run_id, claim_id = (await new_runs([{}])).only
    wake_at = NOW + timedelta(days=300)
    wait = Wait(wake_at, '{"version": 2}', leaves=True)
    assert await write(database, Change(claim_id, run_id, [], wait)) == {run_id}
    assert await row(database, WORK, run_id) == {
        "status": "waiting", "carrier": None, "claim_id": None, "wake_at": wake_at, "woken": False,
        "progress": {"version": 2},
    }  # fmt: skip
    assert await write(database, Change(claim_id, run_id, [record(run_id, "late")])) == set()


async def test_a_run_that_was_woken_before_it_waits_is_queued_and_only_its_claim_forgets_that(
    database: Database, new_runs: NewRuns
) -> None:
    run_id, claim_id = (await new_runs([{}])).only
    async with database.connection() as connection:
        await connection.execute("select wake_runs_2(%s)", ([run_id],))
    await write(database, Change(claim_id, run_id, [], Wait(NOW, '{"version": 2}', leaves=True)))
    assert await row(database, WORK, run_id) == {
        "status": "queued", "carrier": None, "claim_id": None, "wake_at": None, "woken": True,
        "progress": {"version": 2},
    }  # fmt: skip
    assert [run.run_id for run in await claimed(database)] == [run_id]
    assert not (await row(database, WORK, run_id))["woken"]


async def test_only_what_is_held_of_a_write_is_written(database: Database, new_runs: NewRuns) -> None:
    lost = await new_runs([{}])
    await lose(database, lost.shift_id)
    await claimed(database)
    mine = await new_runs([{}])
    (one, its_claim), (other, old_claim) = mine.only, lost.only
    changes = [Change(its_claim, one, [record(one, "a")]), Change(old_claim, other, [record(other, "a")])]
    assert await write(database, *changes) == {one}


async def test_a_claim_opens_only_its_own_run(database: Database, new_runs: NewRuns) -> None:
    carried = await new_runs([{}, {}])
    (_, its_claim), (run_id, claim_id) = carried.claims.items()
    assert await write(database, Change(its_claim, run_id, [record(run_id, "a")])) == set()
    assert await write(database, Change(claim_id, run_id, [record(run_id, "a")])) == {run_id}


async def test_progress_that_somebody_else_has_written_meanwhile_is_not_overwritten(
    database: Database, new_runs: NewRuns
) -> None:
    """As of an activity that stalled, and of its repetition: both have the claim."""
    run_id, claim_id = (await new_runs([{}])).only
    changes = [
        Change(claim_id, run_id, [record(run_id, name)], Wait(None, f'{{"by": "{name}"}}'), progress_no=0)
        for name in ("repeated", "stalled")
    ]
    assert await try_to_write(database, changes[0]) == WriteResult({run_id}, set(), False, set())
    assert await try_to_write(database, changes[1]) == WriteResult(set(), set(), False, {run_id})
    assert (await row(database, WORK, run_id))["progress"] == {"by": "repeated"}
    assert (await row(database, "select step_id from run_steps where run_id = %s", run_id)) == {
        "step_id": "repeated"
    }
