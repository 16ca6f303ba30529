"""Claims without a worker: as of a process that has died the moment they were committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from database import Connection, Database
from language.progress import Progress
from language.records import StepRecord
from models.identifiers import new_id
from models.runs import run_work, shifts
from models.runs.claim_requests import ClaimRequest
from models.runs.run_work import Claim, ClaimedRun
from models.runs.run_writes import Change, record_changes_if_claimed


async def new_shift(database: Database) -> UUID:
    """Begin a shift; nobody beats for it."""
    shift_id = new_id()
    async with database.connection() as connection:
        await shifts.begin(connection, shift_id, new_id())
    return shift_id


async def claim(database: Database, shift_id: UUID | None = None, **options: Any) -> Claim | bool:
    """Claim for a shift, a new one by default."""
    mine = shift_id or await new_shift(database)
    async with database.connection() as connection:
        return await run_work.claim(connection, mine, ClaimRequest(**options))


async def claims(database: Database, **options: Any) -> list[list[UUID]]:
    """Claim until nothing may be claimed; the runs of each, in the order of their ids."""
    found: list[list[UUID]] = []
    while isinstance(one := await claim(database, **options), Claim):
        found.append(sorted(run.run_id for run in runs_of(one)))
    return found


async def claimed(database: Database, shift_id: UUID | None = None, **options: Any) -> list[ClaimedRun]:
    """The runs of a claim that finds some."""
    found = await claim(database, shift_id, **options)
    assert isinstance(found, Claim)
    return runs_of(found)


def runs_of(claim: Claim) -> list[ClaimedRun]:
    """All runs of a claim, in the order of their ids."""
    return sorted((run for runs in claim.groups.values() for run in runs), key=lambda run: run.run_id)


class Held(NamedTuple):
    """A run that a shift carries, whose worker does nothing."""

    run_id: UUID
    claim_id: UUID
    shift_id: UUID


async def held(database: Database) -> Held:
    """Claim the one run that waits."""
    shift_id = await new_shift(database)
    [run] = await claimed(database, shift_id)
    return Held(run.run_id, run.claim_id, shift_id)


async def lose(database: Database, shift_id: UUID) -> int:
    """End a shift as whoever has seen it stand still for long; how many runs that queues."""
    async with database.connection() as connection:
        cursor = await connection.execute("select beats from shifts where id = %s", (shift_id,))
        row = await cursor.fetchone()
        assert row is not None
        queued = await shifts.end(connection, shift_id, row["beats"])
    assert queued is not None
    return queued


async def carrier_of(database: Database, run_id: UUID) -> UUID | None:
    """The shift that carries a run."""
    async with database.connection() as connection:
        cursor = await connection.execute("select carrier from run_work where run_id = %s", (run_id,))
        row = await cursor.fetchone()
    return row and row["carrier"]


def record_of(run_id: UUID, step_id: str = "a", **fields: Any) -> StepRecord:
    """The record of a step that is done."""
    now = datetime.now(UTC)
    return StepRecord(
        run_id=run_id, step_id=step_id, position=0, status="completed", started_at=now, completed_at=now,
        **fields,
    )  # fmt: skip


async def record(connection: Connection, claim_id: UUID, *records: StepRecord) -> set[UUID]:
    """Write steps of a run, as its carrier does."""
    change = Change(claim_id, records[0].run_id, list(records))
    return (await record_changes_if_claimed(connection, [change])).runs


async def let_pass(database: Database, run_id: UUID, time: timedelta) -> None:
    """What a waiting run looks like so much later, all its times being that much longer ago."""

    def earlier(moment: datetime | None) -> datetime | None:
        return moment and moment - time

    async with database.connection() as connection:
        cursor = await connection.execute("select progress from run_work where run_id = %s", (run_id,))
        row = await cursor.fetchone()
        assert row is not None
        now = Progress.model_validate(row["progress"])
        steps = {
            name: step.model_copy(update={"began": earlier(step.began), "until": earlier(step.until)})
            for name, step in now.steps.items()
        }
        later = now.model_copy(update={"steps": steps})
        await connection.execute(
            "update run_work set wake_at = wake_at - %s, progress = %s where run_id = %s",
            (time, later.model_dump_json(), run_id),
        )
