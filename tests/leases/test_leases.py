"""One executor at a time: beats, take-overs, and writes that are fenced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from database import Database
from language.records import StepError, StepRecord
from models import leases, recovery
from models.identifiers import new_id
from models.leases import Lease
from models.run_writes import Change, End, Wait, record_changes_if_leased
from tests.leases.conftest import Batch, NewBatch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ME, OTHER = new_id(), new_id()


def record(run_id: UUID, step_id: str, output: Any = None, **fields: Any) -> StepRecord:
    return StepRecord(
        run_id=run_id, step_id=step_id, position=0, status="completed", output=output, started_at=NOW,
        completed_at=NOW, **fields,
    )  # fmt: skip


async def taken(database: Database, batch: Batch, worker: UUID = ME) -> Lease | None:
    async with database.connection() as connection:
        taken = await leases.take_over(connection, batch.id, worker)
    return taken and taken.lease


async def held(database: Database, batch: Batch) -> Lease:
    lease = await taken(database, batch)
    assert lease is not None
    return lease


async def silence(database: Database, batch: Batch) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "update batches set beat_at = now() - interval '11 seconds' where id = %s", (batch.id,)
        )


async def write(database: Database, *changes: Change) -> set[UUID]:
    async with database.connection() as connection:
        return (await record_changes_if_leased(connection, changes)).runs


async def row(database: Database, query: str, *values: Any) -> Any:
    async with database.connection() as connection:
        return await (await connection.execute(query, values)).fetchone()  # pyright: ignore[reportArgumentType]


async def test_a_batch_that_nobody_executes_is_taken_by_one(database: Database, new_batch: NewBatch) -> None:
    batch = await new_batch([{}])
    assert await taken(database, batch) is not None
    assert await taken(database, batch, OTHER) is None


async def test_a_silent_executor_loses_its_batch(database: Database, new_batch: NewBatch) -> None:
    batch = await new_batch([{}])
    first = await held(database, batch)
    await silence(database, batch)
    second = await taken(database, batch, OTHER)
    assert second is not None
    async with database.connection() as connection:
        assert await leases.renew(connection, [first, second]) == {batch.id}
        assert await leases.renew(connection, [first]) == set()


async def test_a_beat_keeps_a_batch(database: Database, new_batch: NewBatch) -> None:
    batch = await new_batch([{}])
    lease = await held(database, batch)
    await silence(database, batch)
    async with database.connection() as connection:
        assert await leases.renew(connection, [lease]) == {batch.id}
    assert await taken(database, batch, OTHER) is None


async def test_an_unknown_batch_is_nobodys(database: Database) -> None:
    assert await taken(database, Batch(new_id(), [])) is None


async def test_steps_and_items_are_written_once(database: Database, new_batch: NewBatch) -> None:
    batch = await new_batch([{}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    records = [
        record(run_id, "each", 1, item=0),
        record(run_id, "each", 2, item=1),
        record(run_id, "call", "a\0b"),
    ]
    for _ in range(2):
        assert await write(database, Change(lease, run_id, records)) == {run_id}
    await write(database, Change(lease, run_id, [record(run_id, "call", "another")]))
    assert (await row(database, "select output from run_steps where run_id = %s", run_id))["output"] == "a\0b"
    found = await row(
        database, "select json_agg(output order by item) as o from run_step_items where run_id = %s", run_id
    )
    assert found["o"] == [1, 2]


async def test_an_ended_run_names_its_output_and_is_work_no_longer(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([{}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    change = Change(lease, run_id, [record(run_id, "call", {"n": 1})], End("completed", output_of="call"))
    assert await write(database, change) == {run_id}
    run = await row(database, "select status, output_of, completed_at from runs where id = %s", run_id)
    assert (run["status"], run["output_of"]) == ("completed", "call")
    assert run["completed_at"] is not None
    assert await row(database, "select 1 from run_work where run_id = %s", run_id) is None


async def test_a_run_that_waits_beside_its_work_stays_with_its_executor(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([{}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    await write(database, Change(lease, run_id, [], Wait(NOW, "{}", leaves=False)))
    work = await row(database, "select status, batch_id, wake_at from run_work where run_id = %s", run_id)
    assert work == {"status": "running", "batch_id": batch.id, "wake_at": NOW}
    assert await write(database, Change(lease, run_id, [record(run_id, "call")])) == {run_id}


async def test_a_failed_run_keeps_its_error(database: Database, new_batch: NewBatch) -> None:
    batch = await new_batch([{}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    error = StepError(code="http_status", message="404", step="call")
    await write(database, Change(lease, run_id, [], End("failed", error)))
    run = await row(database, "select status, error from runs where id = %s", run_id)
    assert run == {"status": "failed", "error": error.model_dump(exclude_none=True)}


async def test_what_has_ended_is_written_no_more(database: Database, new_batch: NewBatch) -> None:
    batch = await new_batch([{}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    await write(database, Change(lease, run_id, [], End("cancelled")))
    assert await write(database, Change(lease, run_id, [record(run_id, "late")], End("completed"))) == set()
    assert await row(database, "select 1 from run_steps where run_id = %s", run_id) is None
    assert (await row(database, "select status from runs where id = %s", run_id))["status"] == "cancelled"


async def test_a_waiting_run_keeps_its_batch_and_is_not_written(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([{}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    wake_at = NOW + timedelta(days=300)
    assert await write(database, Change(lease, run_id, [], Wait(wake_at, '{"version": 2}', leaves=True))) == {
        run_id
    }
    work = await row(
        database, "select status, batch_id, wake_at, progress from run_work where run_id = %s", run_id
    )
    assert work == {"status": "waiting", "batch_id": batch.id, "wake_at": wake_at, "progress": {"version": 2}}
    assert await write(database, Change(lease, run_id, [record(run_id, "late")])) == set()


async def test_a_run_that_was_woken_before_it_waits_is_queued(
    database: Database, new_batch: NewBatch
) -> None:
    batch = await new_batch([{}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    async with database.connection() as connection:
        await connection.execute("update run_work set woken = true where run_id = %s", (run_id,))
    await write(database, Change(lease, run_id, [], Wait(NOW, '{"version": 2}', leaves=True)))
    work = await row(
        database, "select status, batch_id, wake_at, woken from run_work where run_id = %s", run_id
    )
    assert work == {"status": "queued", "batch_id": None, "wake_at": None, "woken": True}


async def test_all_runs_of_a_batch_whose_workflow_is_over_go_back_to_their_lane(
    database: Database, new_batch: NewBatch
) -> None:
    """A row that waited for a batch that is gone would count nowhere: its workflow may limit its runs."""
    batch = await new_batch([{}, {}])
    lease, run_id = await held(database, batch), batch.run_ids[0]
    await write(database, Change(lease, run_id, [], Wait(NOW, '{"version": 2}', leaves=True)))
    await silence(database, batch)
    async with database.connection() as connection:
        assert await recovery.give_back(connection, batch.id) == 2
        cursor = await connection.execute(
            "select status, batch_id, wake_at from run_work where run_id = any(%s)", (batch.run_ids,)
        )
        assert await cursor.fetchall() == 2 * [{"status": "queued", "batch_id": None, "wake_at": None}]


async def test_only_what_is_held_of_a_write_is_written(database: Database, new_batch: NewBatch) -> None:
    mine, lost = await new_batch([{}]), await new_batch([{}])
    lease, old = await held(database, mine), await held(database, lost)
    await silence(database, lost)
    assert await taken(database, lost, OTHER) is not None
    (one,), (other,) = mine.run_ids, lost.run_ids
    changes = [Change(lease, one, [record(one, "a")]), Change(old, other, [record(other, "a")])]
    assert await write(database, *changes) == {one}


@pytest.mark.parametrize("wrong", ["batch", "executor"])
async def test_a_lease_opens_only_its_own_batch(database: Database, new_batch: NewBatch, wrong: str) -> None:
    mine, another = await new_batch([{}]), await new_batch([{}])
    lease, other = await held(database, mine), await held(database, another)
    forged = Lease(another.id, lease.executor) if wrong == "executor" else Lease(mine.id, lease.executor)
    run_id = another.run_ids[0]
    assert await write(database, Change(forged, run_id, [record(run_id, "a")])) == set()
    assert await write(database, Change(other, run_id, [record(run_id, "a")])) == {run_id}
