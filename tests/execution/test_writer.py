"""What the writer of a worker makes of changes that go together."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from database import Connection, Database
from execution import run_recorder
from execution.run_recorder import DatabaseAway, RunRecorder, StaleProgress, UnstorableRecord
from models.identifiers import new_id
from models.runs import run_writes
from models.runs.run_writes import Change, End, Wait, WriteResult
from notifications import Notifier
from tests.automations.claims import record_of
from tests.claims.conftest import NewRuns


async def write(database: Database, changes: list[Change], *, return_exceptions: bool = False) -> list[Any]:
    """Have a worker write these changes at one moment."""
    notifier = Notifier(database)
    notifier.start()
    writer = RunRecorder(database, notifier)
    await writer.database.open()
    try:
        async with asyncio.timeout(20):
            writing = (writer.write(change) for change in changes)
            return await asyncio.gather(*writing, return_exceptions=return_exceptions)
    finally:
        await writer.database.close()
        await notifier.stop()


@pytest.mark.parametrize("order", [1, -1], ids=["overtaken first", "overtaken last"])
async def test_of_two_carriers_in_one_process_only_the_one_that_holds_a_run_writes_it(
    database: Database, new_runs: NewRuns, order: int
) -> None:
    run_id, claim_id = (await new_runs([1])).only
    changes = [
        Change(new_id(), run_id, then=End("failed")),
        Change(claim_id, run_id, then=End("completed")),
    ]
    written = await write(database, changes[::order])
    assert written[::order] == [False, True]
    async with database.connection() as connection:
        cursor = await connection.execute("select status from runs where id = %s", (run_id,))
        assert await cursor.fetchone() == {"status": "completed"}


@pytest.mark.parametrize("error", [psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex])
async def test_a_change_that_exceeds_a_limit_of_postgres_fails_alone(
    database: Database, new_runs: NewRuns, monkeypatch: pytest.MonkeyPatch, error: type[psycopg.Error]
) -> None:
    carried = await new_runs([1, 2, 3])
    too_much = carried.run_ids[1]
    record = run_writes.record_changes_if_claimed

    async def write_or_refuse(connection: Connection, changes: list[Change], *announce: Any) -> WriteResult:
        if any(change.run_id == too_much for change in changes):
            raise error
        return await record(connection, changes, *announce)

    monkeypatch.setattr(run_writes, "record_changes_if_claimed", write_or_refuse)
    changes = [Change(carried.claims[one], one, then=End("completed")) for one in carried.run_ids]
    written = await write(database, changes, return_exceptions=True)
    assert [written[0], type(written[1]), written[2]] == [True, UnstorableRecord, True]


async def test_what_a_run_writes_goes_beside_the_end_that_cancels_it(
    database: Database, new_runs: NewRuns
) -> None:
    carried = await new_runs([1, 2, 3])
    above, between, below = carried.run_ids
    async with database.connection() as connection:
        await connection.execute(
            "update run_work w set parent_run_id = n.parent"
            " from unnest(%s::uuid[], %s::uuid[]) n (id, parent) where w.run_id = n.id",
            ([between, below], [above, between]),
        )
    changes = [
        Change(carried.claims[above], above, then=End("failed", has_children=True)),
        Change(carried.claims[below], below, then=End("completed"), parent_run_id=between),
    ]
    assert (await write(database, changes))[0]
    async with database.connection() as connection:
        cursor = await connection.execute("select from run_work where run_id = any(%s)", (carried.run_ids,))
        assert cursor.rowcount == 0


async def test_who_writes_of_progress_that_is_older_than_the_stored_one_is_told_so(
    database: Database, new_runs: NewRuns
) -> None:
    run_id, claim_id = (await new_runs([1])).only
    wait = Change(claim_id, run_id, then=Wait(None, "{}"), progress_no=0)
    assert await write(database, [wait]) == [True]
    with pytest.raises(StaleProgress):
        await write(database, [wait])


async def test_what_many_calls_of_a_run_give_at_one_moment_is_written_at_once(
    database: Database, new_runs: NewRuns
) -> None:
    """As of steps, or items, that are activities side by side: none waits for all the others."""
    run_id, claim_id = (await new_runs([1])).only
    changes = [Change(claim_id, run_id, [record_of(run_id, item=item)]) for item in range(40)]
    changes.append(Change(new_id(), run_id, [record_of(run_id, item=40)]))
    assert await write(database, changes) == [True] * 40 + [False]
    async with database.connection() as connection:
        cursor = await connection.execute("select item from run_step_items where run_id = %s", (run_id,))
        assert {row["item"] for row in await cursor.fetchall()} == set(range(40))


async def test_a_process_that_stops_leaves_its_runs_to_others_where_the_database_stays_away(
    database: Database, new_runs: NewRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_recorder, "_AWAY_SECONDS", 0.1)
    run_id, claim_id = (await new_runs([1])).only
    writer = RunRecorder(database, Notifier(database))
    # A pool that is shut answers as one whose server has gone.
    await writer.database.open()
    await writer.database.close()
    waiting = asyncio.create_task(writer.write(Change(claim_id, run_id, then=End("completed"))))
    _, still = await asyncio.wait([waiting], timeout=0.5)
    assert still and not writer.has_given_up
    writer.stopping = True
    async with asyncio.timeout(20):
        with pytest.raises(DatabaseAway):
            await waiting
    assert writer.has_given_up
