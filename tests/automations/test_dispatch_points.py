"""The points at which a process can die between an event and its end, and what covers each.

Those of runs that have workflows of their own are in test_own_trouble.

| Point | Test |
| --- | --- |
| 1 the API, before the commit | `test_an_event_that_was_lost_before_its_commit_…` |
| 2 after it, before the notification | `test_a_run_that_nobody_was_told_of_is_found` |
| 3 claimed, not begun | test_dispatcher: `test_a_claim_whose_worker_never_began_…` |
| 4 the database crashed, the claim not on disk | `test_a_claim_that_a_crash_has_taken_back_…` |
| 5 killed after a claim, a hand-over, a start or a write | test_killed_workers: `test_a_worker_that_dies_…` |
| 6 killed during calls | test_killed_workers: `test_a_killed_worker_leaves_what_it_has_done` |
| 7 written, the reply lost | test_lost_writes: `test_what_is_committed_is_not_done_again` |
| 8 between a write, the end of its shift, and the next claim | tests/claims/test_interleavings |
| 9 ended, the reply lost | test_lost_writes: `test_a_run_that_has_ended_stays_as_it_ended` |
| 10 its shift ended by another who is mistaken | test_dispatcher: `test_a_worker_whose_shift_was_ended_…` |
| 11 handed over, and nothing takes it up | `test_a_run_that_was_handed_over_and_not_taken_up_goes_by_shift` |
| 12 the database restored | `test_an_executor_lets_go_of_runs_that_a_restore_has_taken_from_it` |
| 13 a claim for a shift that is ended at that moment | tests/claims/test_strays |
| 14 a carrier that was overtaken | `test_a_carrier_that_lost_a_run_can_write_nothing_of_it` |
| 15 the worker stopped | `test_a_worker_that_is_stopped_loses_and_repeats_nothing` |
| 16 silent, stopped, restarted: processes, Postgres, Temporal | test_crash_points |
| 17 lost with its worker again and again | test_dispatcher: `test_a_run_that_was_lost_twice_…` |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from database import Connection, Database
from dispatch import runs as dispatcher
from execution import executor
from models.runs import claim_requests, own_runs, setbacks, shifts
from models.runs.run_writes import Change, End, Wait, record_changes_if_claimed
from models.runs.runs import QUEUED_CHANNEL
from tests.api_server import Api
from tests.automations.claims import carrier_of, claim, held, let_pass, lose, record, record_of
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    requested,
    until,
    webhook,
)
from tests.automations.workflows import create, post
from tests.views import get_run

EXECUTION = "shift"


# Point 1


async def kill_what_waits_for_a_lock(connection: Connection) -> bool:
    cursor = await connection.execute(
        "select pg_terminate_backend(pid) as killed from pg_stat_activity where application_name ="
        " 'vedette-api' and datname = current_database() and wait_event_type = 'Lock'"
    )
    return bool(await cursor.fetchall())


async def test_an_event_that_was_lost_before_its_commit_is_accepted_when_sent_again(
    api: Api, database: Database
) -> None:
    person = await api.person()
    made = await create(person)

    async def send() -> Any:
        return await post(api, made["webhook_url"], json={}, headers={"Idempotency-Key": "event-1"})

    async with database.transaction() as connection:
        await connection.execute("lock table runs in share mode")
        sending = asyncio.create_task(send())
        await until(lambda: kill_what_waits_for_a_lock(connection))
        assert (await sending).status_code >= 500
    first, second = await send(), await send()
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["run_id"] == second.json()["run_id"]
    listed = (await person.key.get("/api/workflows/runs")).json()
    assert listed["total"] == 1


# Point 2


async def test_a_run_that_nobody_was_told_of_is_found(
    at_work: Work, database: Database, new_target: NewTarget
) -> None:
    target = await new_target()
    async with at_work() as notifier:
        notifier.notify = lambda channel, payload="": None
        # The first may be there before the worker begins; by the second it does nothing but wait.
        for _ in range(2):
            [run_id] = await accept(database, target)
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"


# Points 4 and 11


@pytest.mark.usefixtures("nothing_waits")
async def test_a_claim_that_a_crash_has_taken_back_is_made_again_and_nothing_is_done_twice(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """A claim does not wait for the disk; what was written of the run under it is refused then."""
    target = await new_target([webhook(receiver.url, "one"), webhook(f"{receiver.url}/two", "two")])
    [run_id] = await accept(database, target)
    run = await held(database)
    async with database.connection() as connection:
        await connection.execute(REQUEUE, (run_id,))
        change = Change(run.claim_id, run_id, [record_of(run_id, "one")], End("failed"))
        assert (await record_changes_if_claimed(connection, [change])).runs == set()
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and receiver.paths == ["/", "/two"]


@pytest.mark.usefixtures("nothing_waits")
async def test_a_run_that_is_taken_back_is_refused_to_the_workflow_that_was_told_after_all(
    database: Database, new_target: NewTarget
) -> None:
    [run_id] = await accept(database, await new_target())
    run = await held(database)
    async with database.connection() as connection:
        await own_runs.hand_over(connection, {run_id: run.claim_id})
        claim_id = await own_runs.take_back(connection, run_id, run.claim_id, run.shift_id)
        assert claim_id not in (None, run.claim_id)
        assert await own_runs.load(connection, run_id, run.claim_id) is None
        assert await record(connection, run.claim_id, record_of(run_id)) == set()
        assert claim_id is not None and await record(connection, claim_id, record_of(run_id)) == {run_id}


@pytest.mark.usefixtures("nothing_waits")
async def test_a_run_that_its_workflow_has_taken_up_is_not_taken_back(
    database: Database, new_target: NewTarget
) -> None:
    [run_id] = await accept(database, await new_target())
    run = await held(database)
    async with database.connection() as connection:
        await own_runs.hand_over(connection, {run_id: run.claim_id})
        assert await own_runs.load(connection, run_id, run.claim_id) is not None
        assert await own_runs.take_back(connection, run_id, run.claim_id, run.shift_id) is None
        assert await record(connection, run.claim_id, record_of(run_id)) == {run_id}


# What waits


async def test_runs_that_wait_for_long_go_on_whatever_has_become_of_a_timer(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    wait = {"id": "wait", "type": "delay", "config": {"days": 30}}
    target = await new_target([webhook(f"{receiver.url}/before", "before"), wait, webhook(receiver.url)])
    [run_id] = await accept(database, target)

    async def waits() -> bool:
        async with database.connection() as connection:
            return (await get_run(connection, target.account_id, run_id)).status == "waiting"

    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await until(waits)
        await let_pass(database, run_id, timedelta(days=31))
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and {step.status for step in view.steps} == {"completed"}
    assert receiver.paths == ["/before", "/"]


# Points 12 and 14

FORGET = (
    "with gone as (delete from run_work where run_id = %s returning run_id)"
    " delete from runs r using gone where r.id = gone.run_id"
)
REQUEUE = (
    "update run_work set status = 'queued', carrier = null, claim_id = null, begun = false,"
    " started_at = null where run_id = %s"
)


@pytest.mark.parametrize("restore", [FORGET, REQUEUE], ids=["as if never accepted", "as if just accepted"])
async def test_an_executor_lets_go_of_runs_that_a_restore_has_taken_from_it(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    restore: Any,
) -> None:
    monkeypatch.setattr(executor, "BEAT_SECONDS", 0.1)
    target = await new_target(
        [webhook(f"{receiver.url}/held", "first"), webhook(f"{receiver.url}/next", "next")]
    )
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        async with database.transaction() as connection:
            await connection.execute(restore, (run_id,))
        if restore == REQUEUE:
            notifier.notify(QUEUED_CHANNEL)
            await requested(receiver, 2)
        else:
            await until(lambda: nothing_is_at_work(database))
        receiver.open.set()
        if restore == REQUEUE:
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    expected = {"/held": 2, "/next": 1} if restore == REQUEUE else {"/held": 1}
    assert Counter(receiver.paths) == expected
    assert len({request["headers"]["webhook-id"] for request in receiver.requests}) == len(expected)


async def nothing_is_at_work(database: Database) -> bool:
    """Return whether the worker that lives says so with its beats."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select from shifts where beat_at > now() - interval '2 seconds' and at_work = 0 and beats > 0"
        )
        return bool(cursor.rowcount)


Write = Callable[[Connection, UUID, UUID], Awaitable[Any]]


def written(then: Wait | End) -> Write:
    return lambda c, claim_id, run_id: record_changes_if_claimed(c, [Change(claim_id, run_id, then=then)])


WRITES: dict[str, Write] = {
    "a step": lambda c, claim_id, run_id: record(c, claim_id, record_of(run_id)),
    "an item": lambda c, claim_id, run_id: record(c, claim_id, record_of(run_id, item=0)),
    "an end": written(End("failed")),
    "a wait": written(Wait(None, "{}", leaves=True)),
    "what is under way": written(Wait(None, "{}")),
    "its return to the queue": lambda c, claim_id, run_id: shifts.requeue_runs(c, {run_id: claim_id}),
    "a setback": lambda c, claim_id, run_id: setbacks.set_run_aside(c, run_id, claim_id, "build"),
    "its trial alone": lambda c, claim_id, run_id: setbacks.note_trial(c, run_id, claim_id, "build"),
    "its hand-over": lambda c, claim_id, run_id: own_runs.hand_over(c, {run_id: claim_id}),
    "progress": lambda c, claim_id, run_id: own_runs.change_progress(
        c, run_id, claim_id, lambda _: "{}", went_on=True
    ),
}


@pytest.mark.parametrize("what", WRITES)
async def test_a_carrier_that_lost_a_run_can_write_nothing_of_it(
    database: Database, new_target: NewTarget, nothing_waits: None, what: str
) -> None:
    [run_id] = await accept(database, await new_target())
    old = await held(database)
    await lose(database, old.shift_id)
    new = await held(database)
    async with database.connection() as connection:
        before = await rows_of(connection, run_id)
        await WRITES[what](connection, old.claim_id, run_id)
        assert await rows_of(connection, run_id) == before
        # The same by the carrier that has it does change something.
        await WRITES[what](connection, new.claim_id, run_id)
        assert await rows_of(connection, run_id) != before


async def test_an_ended_shift_can_neither_beat_nor_claim_nor_end_what_others_have(
    database: Database, new_target: NewTarget, nothing_waits: None
) -> None:
    [run_id] = await accept(database, await new_target())
    old = await held(database)
    await lose(database, old.shift_id)
    new = await held(database)
    async with database.connection() as connection:
        before = await rows_of(connection, run_id)
        assert await shifts.beat(connection, old.shift_id, 0, {run_id: old.claim_id}) is None
        assert await shifts.end(connection, old.shift_id, 0) is None
        assert await shifts.release(connection, old.shift_id) == 0
        assert await rows_of(connection, run_id) == before
    await accept(database, await new_target())
    assert await claim(database, old.shift_id) is False
    assert await carrier_of(database, run_id) == new.shift_id


async def rows_of(connection: Connection, run_id: UUID) -> list[dict[str, Any]]:
    """All that is stored of a run."""
    rows: list[dict[str, Any]] = []
    for query in (
        "select * from runs where id = %s",
        "select * from run_work where run_id = %s",
        "select * from run_steps where run_id = %s",
        "select * from run_step_items where run_id = %s",
        "select s.* from shifts s join run_work w on w.carrier = s.id where w.run_id = %s",
    ):
        cursor = await connection.execute(query, (run_id,))
        rows += await cursor.fetchall()
    return rows


# Point 15


@pytest.mark.usefixtures("short_periods")
async def test_a_worker_that_is_stopped_loses_and_repeats_nothing(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So that it has not claimed all when it is stopped.
    monkeypatch.setattr(claim_requests, "MAX_ROWS", 4)
    monkeypatch.setattr(dispatcher, "_PAUSE", 0.3)

    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(0.4)
        return web.json_response({})

    receiver.handler = slow
    account_id = (await new_target()).account_id
    targets = [await new_target([webhook(receiver.url)], account_id=account_id) for _ in range(24)]
    run_ids = [(await accept(database, target))[0] for target in targets]
    async with at_work():
        await requested(receiver, 3)
    at_the_stop = len(receiver.requests)
    async with at_work() as notifier:
        views = [await ended(database, notifier, account_id, run_id) for run_id in run_ids]
    assert {view.status for view in views} == {"completed"} and at_the_stop < 24
    calls = Counter(request["headers"]["webhook-id"] for request in receiver.requests)
    assert len(calls) == 24 and set(calls.values()) == {1}
