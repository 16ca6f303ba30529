"""What becomes of claims whose process has died; the other points are in test_dispatch_points."""

from __future__ import annotations

from uuid import UUID

import pytest
from aiohttp import web

from database import Database
from execution import executor
from execution.executor import Executor
from models.runs.runs import QUEUED_CHANNEL
from settings import Settings
from tests.automations.claims import carrier_of, held, lose, record, record_of
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    hasty_worker,
    requested,
    transform,
    until,
    webhook,
)

EXECUTION = "shift"
ANSWERED = {"status": 200, "headers": {}, "body": None}


@pytest.mark.usefixtures("short_periods", "nothing_waits")
async def test_a_claim_whose_worker_never_began_is_found_by_its_silence(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    target = await new_target([webhook(receiver.url)])
    [run_id] = await accept(database, target)
    await held(database)
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed" and len(receiver.requests) == 1
    assert view.takeovers is not None and view.takeovers.count == 1


@pytest.mark.usefixtures("nothing_waits")
async def test_the_runs_of_a_shift_that_was_ended_keep_their_finished_steps(
    at_work: Work, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    steps = [
        webhook(f"{receiver.url}/1", "one"),
        webhook(f"{receiver.url}/2", "two", body="{{ one.status }}"),
    ]
    target = await new_target(steps)
    [run_id] = await accept(database, target)
    run = await held(database)
    async with database.connection() as connection:
        assert await record(connection, run.claim_id, record_of(run_id, "one", output=ANSWERED)) == {run_id}
    await lose(database, run.shift_id)
    async with at_work() as notifier:
        view = await ended(database, notifier, target.account_id, run_id)
    assert view.status == "completed"
    assert [(request["path"], request["body"]) for request in receiver.requests] == [("/2", "200")]


@pytest.mark.long
@pytest.mark.usefixtures("short_periods", "nothing_waits")
async def test_a_run_whose_worker_beats_stays_with_it_for_longer_than_any_silence(
    open_settings: Settings,
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
) -> None:
    target = await new_target([webhook(f"{receiver.url}/held")])
    [run_id] = await accept(database, target)
    with hasty_worker(open_settings):
        await requested(receiver, 1)
        # Another that would end its shift.
        async with at_work() as notifier:
            await stays(database, run_id)
            receiver.open.set()
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert len(receiver.requests) == 1


async def stays(database: Database, run_id: UUID) -> None:
    """Wait until the carrier of a run has beaten often; it has it still."""
    carrier = await carrier_of(database, run_id)

    async def has_beaten_often() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute("select beats from shifts where id = %s", (carrier,))
            row = await cursor.fetchone()
        assert row is not None
        return row["beats"] >= 8

    await until(has_beaten_often)
    assert await carrier_of(database, run_id) == carrier


@pytest.mark.usefixtures("nothing_waits")
async def test_a_worker_whose_shift_was_ended_lets_go_of_its_runs_and_begins_another(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "BEAT_SECONDS", 0.1)

    async def hold(request: web.Request) -> web.Response:
        if len(receiver.requests) == 1:
            await receiver.open.wait()
        return web.json_response({})

    receiver.handler = hold
    target = await new_target([webhook(receiver.url), webhook(f"{receiver.url}/next", "next")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        old = await carrier_of(database, run_id)
        assert old is not None
        async with database.connection() as connection:
            # As by another who has seen it stand still, a moment before it beats.
            await connection.execute("select end_shift_2(id, beats, 10) from shifts where id = %s", (old,))
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        receiver.open.set()
    assert receiver.paths == ["/", "/", "/next"]
    assert len({request["headers"]["webhook-id"] for request in receiver.requests[:2]}) == 1


@pytest.mark.usefixtures("nothing_waits")
async def test_a_run_that_was_lost_twice_goes_while_nothing_is_beside_it(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    begin = Executor.begin

    def begun(self: Executor, claim: object, held: object, *, alone: bool = False) -> None:
        if alone:
            sizes.append(self.size)
        begin(self, claim, held, alone=alone)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Executor, "begin", begun)
    suspect, other = await new_target([transform("end", "'done'")]), await new_target([webhook(receiver.url)])
    ids = await accept(database, suspect, 2)
    async with database.connection() as connection:
        await connection.execute("update run_work set lost = 2, priority = priority + 10")
    others = await accept(database, other, 5)
    async with at_work() as notifier:
        for run_id in ids:
            assert (await ended(database, notifier, suspect.account_id, run_id)).output == "done"
        for run_id in others:
            assert (await ended(database, notifier, other.account_id, run_id)).status == "completed"
    assert sizes == [0, 0]
