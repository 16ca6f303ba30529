"""Claims without a worker: as of a process that has died the moment they were committed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from temporalio.client import Client

from database import Connection, Database
from dispatcher import Dispatcher
from language.records import StepRecord
from models import recovery, run_work
from models.identifiers import new_id
from models.leases import Lease
from models.recovery import BatchToStart
from models.run_work import Claim
from models.run_writes import Change, record_changes_if_leased


async def claim(database: Database, **options: Any) -> Claim | bool:
    async with database.connection() as connection:
        lease = Lease(new_id(), new_id())
        return await run_work.claim(connection, lease, new_id(), **{"window": 4096, **options})


async def claims(database: Database, **options: Any) -> list[list[UUID]]:
    """Claims until nothing may be claimed; the runs of each, in the order of their ids."""
    found: list[list[UUID]] = []
    while isinstance(one := await claim(database, **options), Claim):
        found.append(sorted(run.run_id for run in one.runs))
    return found


async def claimed(database: Database, **options: Any) -> Claim:
    found = await claim(database, **options)
    assert isinstance(found, Claim)
    return found


async def make_silent(database: Database, *batch_ids: UUID) -> None:
    """What batches look like when nobody has beaten for them, or looked at them, for long."""
    async with database.connection() as connection:
        await connection.execute(
            "update batches set beat_at = now() - interval '1 day', probed_at = now() - interval '1 day'"
            " where id = any(%s)",
            (list(batch_ids),),
        )


async def found_unseen(database: Database, batch_id: UUID) -> BatchToStart:
    """The batch, once it is silent, as a sweep finds it."""
    await make_silent(database, batch_id)
    async with database.connection() as connection:
        found = await recovery.find_unseen(connection)
    return next(batch for batch in found if batch.batch_id == batch_id)


def starter(client: Client, database: Database) -> Dispatcher:
    """What starts the workflows of batches, claims nothing and takes nothing over."""
    nothing: Any = None
    idle: Any = Idle()
    return Dispatcher(database, client, idle, nothing, nothing, new_id(), eager=False)


class Idle:
    """In place of an executor: others have taken over already."""

    async def take_up(self, batch_id: UUID) -> None:
        """Do nothing."""


async def batch_of(database: Database, run_id: UUID) -> UUID:
    """The batch that holds a run, or held it last."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select coalesce(w.batch_id, r.batch_id) as batch_id"
            " from runs r left join run_work w on w.run_id = r.id where r.id = %s",
            (run_id,),
        )
        row = await cursor.fetchone()
    assert row is not None
    return row["batch_id"]


def record_of(run_id: UUID, step_id: str = "a", **fields: Any) -> StepRecord:
    now = datetime.now(UTC)
    return StepRecord(
        run_id=run_id, step_id=step_id, position=0, status="completed", started_at=now, completed_at=now,
        **fields,
    )  # fmt: skip


async def record(connection: Connection, lease: Lease, *records: StepRecord) -> set[UUID]:
    """Write steps of a run, as its executor does."""
    return (
        await record_changes_if_leased(connection, [Change(lease, records[0].run_id, list(records))])
    ).runs
